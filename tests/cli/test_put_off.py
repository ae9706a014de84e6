"""What no command uses is not loaded, and is there all the same for whoever asks for it."""

from __future__ import annotations

import subprocess
import sys


def test_what_is_put_off_is_loaded_when_it_is_used() -> None:
    code = (
        "import sys\n"
        "from evenroll.cli.put_off import put_off\n"
        "put_off()\n"
        "put_off()  # a second time changes nothing\n"
        "from scipy import special\n"
        "assert special.ndtr(0.0) == 0.5\n"
        "assert 'numpy.f2py.f2py2e' not in sys.modules and 'unittest' not in sys.modules\n"
        "import numpy.f2py, numpy.testing\n"
        "numpy.testing.assert_array_equal([1], [1])\n"
        "assert callable(numpy.f2py.run_main) and 'numpy.f2py.f2py2e' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
