// A library like any other: it has no rueda_plugin.
extern "C" __attribute__((visibility("default"))) int rueda_test_answer() { return 42; }
