"""Every place in the sources where a small bug can be planted, and bugs drawn from them at random.

Seven kinds of bugs are planted: another operator, a comparison turned round, a limit that is off by one, another constant,
a term that is dropped, two arguments that are swapped, and a condition that is negated. The kind of a bug is drawn first,
each with the same probability, and then the place, each with the same probability: otherwise most would be constants.

Left out are words and what is only read by people or type checkers: docstrings, annotations, decorators, strings, and what
an error says. Colours, sizes and positions in pictures are left out, too (`PICTURES`), and so are constants whose comment
calls them "a choice": no test can say that another would be wrong.
"""

from __future__ import annotations

import ast
import random
import re

from tools.mutants.bug import PACKAGE, Bug
from tools.mutants.equivalent import EQUIVALENT

KINDS = ("operator", "comparison", "off by one", "constant", "dropped term", "swapped arguments", "negation")
PICTURES = tuple(f"study/{name}.py" for name in ("charts", "figures", "palette", "domain_pictures", "comparison_plot"))
PICTURE_FUNCTIONS = ("plot", "draw", "figure")  # the first word of their names
OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"), ast.Pow: ("**", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
}  # fmt: skip
TURNED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", ">="), ast.LtE: ("<=", ">"), ast.Gt: (">", "<="), ast.GtE: (">=", "<"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: (r"is\s+not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}  # fmt: skip
OFF_BY_ONE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
}  # fmt: skip
SYMMETRIC = {"max", "min", "maximum", "minimum", "hypot", "array_equal", "allclose", "isclose", "logical_and", "logical_or"}
UNTYPED = {"isinstance", "issubclass", "getattr", "hasattr", "cast", "TypeVar", "Literal"}  # swapped, these never run


class Places(ast.NodeVisitor):
    """Goes through one file and lists the bugs that could be planted in it."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source, self.bugs = file, source, list[Bug]()
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0),
        )

    def text(self, node: ast.expr) -> bytes:
        start, end = self.span(node)
        return self.source[start:end]

    def add(self, kind: str, start: int, end: int, new: bytes) -> None:
        self.bugs.append(Bug(self.file, start, end, new, kind))

    def replace(self, kind: str, node: ast.expr | ast.stmt, new: bytes) -> None:
        self.add(kind, *self.span(node), new)

    def between(self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Replaces the operator between two expressions. Parentheses and comments may stand there as well."""
        start, end = self.span(left)[1], self.span(right)[0]
        gap = re.sub(rb"#[^\n]*", lambda found: b" " * len(found[0]), self.source[start:end])
        found = re.search((rf"\b{old}\b" if old[0].isalpha() else re.escape(old)).encode(), gap)
        if found:
            self.add(kind, start + found.start(), start + found.end(), new.encode())

    # What is left out.

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        pass

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name.lstrip("_").split("_")[0] in PICTURE_FUNCTIONS:
            return
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not (isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"):
            self.generic_visit(node)

    # Where a bug fits.

    def visit_BinOp(self, node: ast.BinOp) -> None:
        words = any(isinstance(side, ast.JoinedStr) or _is_string(side) for side in (node.left, node.right))
        if type(node.op) in OPERATORS and not words:
            self.between("operator", node.left, node.right, *OPERATORS[type(node.op)])
            for side in (node.left, node.right):
                self.replace("dropped term", node, b"(" + self.text(side) + b")")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in OPERATORS:
            old, new = OPERATORS[type(node.op)]
            self.between("operator", node.target, node.value, old + "=", new + "=")  # type: ignore[arg-type]
            self.replace("dropped term", node, b"pass")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub):
            self.replace("operator", node, b"(" + self.text(node.operand) + b")")
        elif isinstance(node.op, ast.Not):
            self.replace("negation", node, b"(" + self.text(node.operand) + b")")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self.between("comparison", left, right, *TURNED[type(op)])
            if type(op) in OFF_BY_ONE:
                self.between("off by one", left, right, *OFF_BY_ONE[type(op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between("negation", left, right, old, new)
        for value in (node.values[0], node.values[-1]):
            self.replace("dropped term", node, b"(" + self.text(value) + b")")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if "a choice" in self.source.splitlines()[node.lineno - 1].decode().partition("#")[2]:
            return
        if isinstance(value, bool):
            self.replace("constant", node, str(not value).encode())
        elif isinstance(value, int):
            self.replace("constant", node, str(2 * value if abs(value) > 1 else 1 - value).encode())
            self.replace("off by one", node, str(value + 1).encode())
        elif isinstance(value, float):
            self.replace("constant", node, repr(2 * value if value else 1.0).encode())

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for a, b in zip(node.args, node.args[1:], strict=False):
            plain = not any(isinstance(x, ast.Starred | ast.GeneratorExp) for x in (a, b))
            if plain and self.text(a) != self.text(b) and called not in SYMMETRIC | UNTYPED:
                (start, middle), (then, end) = self.span(a), self.span(b)
                self.add("swapped arguments", start, end, self.text(b) + self.source[middle:then] + self.text(a))
        if called not in UNTYPED:
            self.generic_visit(node)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            self.visit_condition(node)
        else:
            super().visit(node)

    def visit_condition(self, node: ast.If | ast.While | ast.IfExp) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self.replace("negation", node.test, b"not (" + self.text(node.test) + b")")
            self.generic_visit(node)


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def bugs_in(file: str) -> list[Bug]:
    """Every bug that can be planted in a file, each of them once."""
    source = (PACKAGE / file).read_bytes()
    places = Places(file, source)
    places.visit(ast.parse(source))
    return list(dict.fromkeys(places.bugs))


def can_be_parsed(bug: Bug) -> bool:
    try:
        ast.parse(bug.planted())
    except SyntaxError:
        return False
    return True


def files() -> list[str]:
    found = (path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    return sorted(file for file in found if file not in PICTURES)


def all_bugs() -> list[Bug]:
    return [bug for file in files() for bug in bugs_in(file)]


def draw(seed: int, count: int, bugs: list[Bug] | None = None) -> list[Bug]:
    """So many bugs, none of which is known to be equivalent. A place is taken at most once."""
    by_kind: dict[str, list[Bug]] = {kind: [] for kind in KINDS}
    for bug in all_bugs() if bugs is None else bugs:
        by_kind[bug.kind].append(bug)
    stream = random.Random(seed)
    for one_kind in by_kind.values():
        stream.shuffle(one_kind)
    drawn: list[Bug] = []
    while len(drawn) < count and any(by_kind.values()):
        bug = by_kind[stream.choice([kind for kind in KINDS if by_kind[kind]])].pop()
        taken = any((bug.file, bug.start) == (other.file, other.start) for other in drawn)
        if not taken and can_be_parsed(bug) and bug.name not in EQUIVALENT:
            drawn.append(bug)
    return drawn
