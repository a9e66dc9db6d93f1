"""Binds librueda to the libraries that it was linked with, in a process that has loaded, or will load, TensorFlow.

TensorFlow makes its symbols visible to all libraries of the process, among them those of its BoringSSL, which have the
names of OpenSSL's. A librueda that shares the system's OpenSSL would call those. So it is opened here, before anything else
opens it, in such a way that its own dependencies come first.
"""

import ctypes
import os

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")

ctypes.CDLL(os.path.join(FOLDER, "librueda.so.1"), mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
