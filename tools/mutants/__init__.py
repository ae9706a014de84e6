"""`make mutants`: plant bugs, one after another, and see whether the tests of the place catch them.

`known` holds bugs that somebody thought of, all of which must be caught. `drawing` finds every place in the sources where
a small bug could be planted, and draws some at random. `places` knows which tests belong to a module. `planting` makes
copies of the sources and runs tests in them. `equivalent` lists drawn bugs that are none, with the reason.
"""
