"""English without a model: requests, replies and plans in a person's words."""
