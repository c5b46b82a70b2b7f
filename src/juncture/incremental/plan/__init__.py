"""Query plans: nodes, rules, and operators for them."""
