"""The backend "rueda" of torch.distributed: process groups, their works, and what makes PyTorch use them.

Programs import nothing from here. They call torch.distributed.init_process_group("rueda"), and rueda.torch_backend,
which PyTorch finds by its entry point, loads process_group.create() for the first group. The order of the modules, each
on top of those after it:

    process_group       the groups; group_rows, group_starts and group_identity are parts of them
    monitored_barrier   a barrier that names the ranks that are missing
    work                what an operation returns: a work and its future
    meeting             how the ranks of the default group find each other through PyTorch's store
    callbacks           names for operations that begin in callbacks of futures
    interrupts          Ctrl-C during a wait inside PyTorch
    devices             copies on the host of tensors on other devices
    group_arguments     the forms in which PyTorch passes arguments
    bucket_memory       moves the buckets of DistributedDataParallel into memory that the ranks of a host share
    averages            averages the gradients of DistributedDataParallel while they are summed
    forward_works, built_in_hooks, older   what PyTorch, or some of its versions, needs on top
"""
