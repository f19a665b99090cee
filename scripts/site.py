"""Hooks of mkdocs.yml: the pages of the repository's root join the site, and Markdown that a forge accepts is written as mkdocs
wants it. Links to source files, which the site does not have, become their text."""
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md",
         "CHANGELOG.md": "changelog.md", "SECURITY.md": "vulnerabilities.md"}
ITEM = re.compile(r"\s*([-*]|\d+\.) ")
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files, config):
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for name in ("LICENSE", "NOTICE", "CITATION.cff"):
        files.append(File.generated(config, name + ".txt", content=(ROOT / name).read_text()))
    return files


def link(match, folder):
    """The link for the site; folder is the page's in the repository."""
    text, path, anchor = match.group(1), match.group(2), match.group(3) or ""
    if not path or "://" in path:
        return match.group(0)
    target = (ROOT / folder / path).resolve().relative_to(ROOT).as_posix()
    up = "../" * (len(pathlib.PurePosixPath(folder).parts) - 1)
    if target in PAGES:
        return f"[{text}]({up}{PAGES[target]}{anchor})"
    if target in ("LICENSE", "NOTICE", "CITATION.cff"):
        return f"[{text}]({up}{target}.txt)"
    if target.startswith("docs/") and target != "docs/README.md":
        return f"[{text}]({up}{target.removeprefix('docs/')}{anchor})"
    return text


def on_page_markdown(markdown, page, config, files):
    source = {v: k for k, v in PAGES.items()}.get(page.file.src_uri)
    folder = "." if source else str(pathlib.PurePosixPath("docs") / pathlib.PurePosixPath(page.file.src_uri).parent)
    lines, fenced, before = [], False, ""
    for line in markdown.split("\n"):
        if line.startswith("```"):
            if not fenced and before.strip():
                lines.append("")
            fenced = not fenced
        elif not fenced:
            start = line.startswith("|") and not before.startswith("|") or ITEM.match(line) and not ITEM.match(before)
            if start and before.strip() or before.startswith("```") and line.strip() or \
                    ITEM.match(before) and line.strip() and not ITEM.match(line) and not line.startswith(" "):
                lines.append("")
            if line.startswith("|"):
                line = re.sub(r" = (?=[\d∞−])", "\u00a0=\u00a0", line)
            line = line.replace(" ± ", "\u00a0±\u00a0")
            line = LINK.sub(lambda m: link(m, folder), line).replace('src="docs/', 'src="')
        lines.append(line)
        before = line
    return "\n".join(lines)
