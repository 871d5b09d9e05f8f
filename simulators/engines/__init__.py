"""Generic engines that build from a World, and the loop that runs a launch to rest."""
