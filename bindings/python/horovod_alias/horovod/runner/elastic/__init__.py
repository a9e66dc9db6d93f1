"""Parts of elastic jobs under the module names of Horovod."""
