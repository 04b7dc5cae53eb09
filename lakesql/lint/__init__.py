"""What a project says rightly and its author may regret: rules with codes, each in a
file of its own."""
