"""The renderers of events, and the output of status and forecasts."""
