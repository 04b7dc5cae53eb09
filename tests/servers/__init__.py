"""Real servers for the tests: started on loopback, on free ports, and stopped by the
fixtures that start them."""
