"""From a composed configuration to parts that fit together: keys, types of values, rules, assembly."""
