"""The command line. Imports the standard library alone; a verb's module only when it is called."""
