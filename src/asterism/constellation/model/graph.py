"""Graph algorithms over ids: paths and cycles. All are iterative, so no graph is too deep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping


def find_path(edges: Mapping[str, Iterable[str]], start: str, end: str) -> list[str] | None:
    """Return a path from start to end, including both; None if there is none. O(n + e)."""
    if start == end:
        return [start]
    came_from = {start: start}
    stack = [start]
    while stack:
        here = stack.pop()
        for there in edges[here]:
            if there in came_from:
                continue
            came_from[there] = here
            if there == end:
                path = [end]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            stack.append(there)
    return None


def reached(edges: Mapping[str, Iterable[str]], start: str) -> set[str]:
    """Return every node that a path leads to from start. O(n + e)."""
    seen: set[str] = set()
    stack = [start]
    while stack:
        for there in edges[stack.pop()]:
            if there not in seen:
                seen.add(there)
                stack.append(there)
    return seen


def find_cycle(nodes: Iterable[str], successors: Callable[[str], Iterable[str]]) -> list[str] | None:
    """Return a cycle as a path that ends where it starts; None if there is none. O(n + e)."""
    done: set[str] = set()
    for start in nodes:
        if start in done:
            continue
        path, on_path = [start], {start}
        stack = [iter(successors(start))]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                finished = path.pop()
                on_path.discard(finished)
                done.add(finished)
            elif following in on_path:
                return [*path[path.index(following) :], following]
            elif following not in done:
                path.append(following)
                on_path.add(following)
                stack.append(iter(successors(following)))
    return None
