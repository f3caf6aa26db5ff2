"""A shop whose orders are reserved and charged in the background, exactly once."""
