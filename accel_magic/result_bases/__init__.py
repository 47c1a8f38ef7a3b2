"""What results of all kinds are made from: their base class, the result of a profile, comparisons."""
