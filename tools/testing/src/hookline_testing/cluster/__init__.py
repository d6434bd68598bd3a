"""Many engines and several front ends in virtual time, by the product's own code."""
