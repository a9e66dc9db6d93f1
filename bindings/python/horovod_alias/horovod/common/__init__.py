"""The parts that all frameworks of Horovod share."""
