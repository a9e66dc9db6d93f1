"""The launcher's files include one another in one direction only. Usage: include_order_test.py FOLDER"""

import os
import re
import sys
import unittest


class IncludeOrder(unittest.TestCase):
    folder = ""

    def graph(self):
        """{idea: ideas it includes}; a header and its source are one idea."""
        found = {}
        for name in sorted(os.listdir(self.folder)):
            idea, kind = os.path.splitext(name)
            if kind not in (".h", ".cc"):
                continue
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                targets = set(re.findall(r'^#include "launcher/(\w+)\.h"', file.read(), re.M))
            found.setdefault(idea, set()).update(targets - {idea})
        return found

    def test_no_file_includes_itself_through_others(self):
        graph = self.graph()
        self.assertIn("job_plan", graph["main"])
        while graph:  # take away what includes nothing that is left; a cycle never leaves
            leaves = {idea for idea, targets in graph.items() if not targets}
            self.assertTrue(leaves, f"in a cycle, or above one: {graph}")
            graph = {idea: targets - leaves for idea, targets in graph.items() if idea not in leaves}


if __name__ == "__main__":
    IncludeOrder.folder = sys.argv.pop()
    unittest.main()
