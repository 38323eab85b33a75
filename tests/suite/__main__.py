import sys

from suite.run import main

sys.exit(main())
