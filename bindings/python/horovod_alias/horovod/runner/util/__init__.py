"""Parts of the launcher under the module names of Horovod."""
