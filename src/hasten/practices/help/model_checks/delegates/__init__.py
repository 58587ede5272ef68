"""What delegates take, as tables of rules: also for those that are not on this machine."""
