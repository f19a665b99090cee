#!/usr/bin/env python3
"""Makes dist/popri-VERSION-linux-x86_64.tar.gz and the wheel of the same: the program with libtorch's libraries, for
machines without Go, compiler and network, from glibc 2.28 on.

    make dist

Needs what `make build` needs, and binutils. On the target, the two need glibc and libstdc++ (GCC 8 or later) alone.
scripts/check_dist.sh unpacks and runs both.
"""
import base64
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE, BUILD, DIST = ROOT / "scripts/dist", ROOT / "build/dist", ROOT / "dist"
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11), "GCC": (8, 0)}
SYSTEM = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s))\.so\.\d")
TORCH = "torch==2.1.2"  # whose wheel has the licences that a cache of an earlier set-up lacks
LICENCES_OF_LIBGOMP = ["/usr/share/doc/libgomp1/copyright", "/usr/share/licenses/libgomp/COPYING.RUNTIME"]


def run(*command, **more):
    return subprocess.run(command, check=True, cwd=ROOT, **more)


def output(*command):
    return run(*command, stdout=subprocess.PIPE, text=True).stdout


def torch():
    """The folder of the libtorch that the bindings of this checkout are for."""
    bindings = re.search(r"gotch \S+ => (.+)", (ROOT / "go.work").read_text())[1]
    lib = Path(re.search(r"-L(\S+)", Path(bindings, "libtch/lib.go").read_text())[1])
    (BUILD / "gotch").unlink(missing_ok=True)
    (BUILD / "gotch").symlink_to(bindings)
    if (lib / "libtorch_cuda.so").exists() or not (lib / "libcudart.so.12").exists():
        sys.exit(f"dist: the bindings are for {lib}; a distribution is made of the libtorch that make setup fetches")
    return lib.parent


def compile(program, of_torch):
    # The program notes the path of a replaced module, here a relative one.
    work = BUILD / "go.work"
    work.write_text(re.sub(r"(gotch \S+ =>) .+", r"\1 ./gotch", (ROOT / "go.work").read_text()).replace("use .", "use ../.."))
    header = (HERE / "glibc.h").read_bytes()
    # Go does not see that an included file has changed, but for its name.
    copy = BUILD / f"glibc-{hashlib.sha256(header).hexdigest()[:8]}.h"
    copy.write_bytes(header)
    run("g++", "-O2", "-fPIC", "-c", HERE / "glibc.cpp", "-o", BUILD / "glibc.o")
    room = "/" + "0" * 100  # for the path that relocate writes
    link = f"-no-pie {BUILD}/glibc.o -lstdc++ -Wl,--wrap=__libc_start_main -Wl,-rpath,{room}"
    flags = f"-O2 -include {copy} -ffile-prefix-map={of_torch}=libtorch -ffile-prefix-map={BUILD}="
    run("go", "build", "-trimpath", "-tags", "netgo,osusergo", "-ldflags", f"-s -w -extldflags '{link}'", "-o", program,
        "./cmd/popri", env={**os.environ, "CGO_CFLAGS": flags, "CGO_CXXFLAGS": flags, "GOWORK": str(work)})


def relocate(path, to):
    """Replaces the folders in which a program or library looks for libraries."""
    found = re.search(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", output("readelf", "-dW", path))
    if not found:
        return
    old, content = found[1].encode(), path.read_bytes()
    if content.count(old + b"\0") != 1 or len(to) > len(old):
        sys.exit(f"dist: {path}: the path {old} cannot be replaced by {to}")
    path.write_bytes(content.replace(old + b"\0", to.encode().ljust(len(old) + 1, b"\0")))


def check(files):
    """Refuses what asks for newer libraries than the target has, or for others, or names a folder of this machine."""
    names = {f.name for f in files}
    for f in files:
        for library in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", f)):
            if library not in names and not SYSTEM.fullmatch(library):
                sys.exit(f"dist: {f.name} needs {library}, which is not distributed")
        for line in output("objdump", "-T", f).splitlines():
            m = re.search(r"\*UND\*.*\((GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)\)\s+(\S+)", line)
            if m and tuple(map(int, m[2].split("."))) > NEWEST[m[1]]:
                sys.exit(f"dist: {f.name} needs {m[3]} of {m[1]}_{m[2]}: scripts/dist/glibc.h must bind an older version")
        for folder in (str(ROOT), str(Path.home())):
            if f.parent.name == "bin" and len(folder) > 1 and folder.encode() + b"/" in f.read_bytes():
                sys.exit(f"dist: {f.name} names the folder {folder}")


def licences(folder, of_torch):
    folder.mkdir()
    found = list(of_torch.glob("torch-*.dist-info/*")) or list(BUILD.glob("torch-*.dist-info/*"))
    if not found:
        with tempfile.TemporaryDirectory(dir=BUILD) as tmp:
            run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir", "--only-binary=:all:",
                "--implementation", "cp", "--python-version", "3.11", "--abi", "cp311", "--platform", "manylinux1_x86_64",
                "-d", tmp, TORCH)
            with zipfile.ZipFile(next(Path(tmp).glob("*.whl"))) as wheel:
                found = [Path(wheel.extract(n, BUILD)) for n in wheel.namelist()
                         if re.search(r"\.dist-info/(LICENSE|NOTICE)$", n)]
    if len(found) != 2:
        sys.exit(f"dist: LICENSE and NOTICE of libtorch: found {found}")
    for name in ("LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, folder / f"popri-{name}.txt")
    for f in found:
        shutil.copy(f, folder / f"libtorch-{f.name}.txt")
    gomp = [p for p in map(Path, LICENCES_OF_LIBGOMP) if p.exists()]
    if not gomp:
        sys.exit(f"dist: no licence of libgomp; looked for {', '.join(LICENCES_OF_LIBGOMP)}")
    shutil.copy(gomp[0], folder / "libgomp.txt")
    shutil.copy(Path(output("go", "env", "GOROOT").strip(), "LICENSE"), folder / "go.txt")
    modules = output("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}{{end}}{{end}}",
                     "./cmd/popri")
    cache = Path(output("go", "env", "GOMODCACHE").strip())
    with open(folder / "go-modules.txt", "w") as out:
        for module in sorted(set(modules.split())):
            place = cache / re.sub("[A-Z]", lambda m: "!" + m[0].lower(), module)
            texts = [f for f in sorted(place.iterdir())
                     if f.is_file() and re.match(r"(?i)licen[cs]e|copying|notice|patents", f.name)]
            if not texts:
                sys.exit(f"dist: {module} has no licence in {place}")
            for f in texts:
                out.write(f"==== {module} {f.name}\n\n{f.read_text(errors='replace').strip()}\n\n")


def stage(folder, version):
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("bin", "lib", "share/popri"):
        (folder / name).mkdir(parents=True)
    of_torch = torch()
    compile(folder / "bin/popri", of_torch)
    for library in of_torch.glob("lib/*.so*"):
        run("strip", "--strip-unneeded", "-o", folder / "lib" / library.name, library)
        relocate(folder / "lib" / library.name, "$ORIGIN")
    relocate(folder / "bin/popri", "$ORIGIN/../lib")
    check([folder / "bin/popri", *folder.glob("lib/*")])
    # Where popri version looks for the version of libtorch, unless the folder's name has it.
    (folder / "build-version").write_text(of_torch.name.split("-")[1] + "\n")
    run("go", "test", "-count=1", "-run", "^TestShipped$", "./datasets/godoc", "-args", "-write-shipped",
        folder / "share/popri/godoc.json", env={**os.environ, "CGO_ENABLED": "0"})
    licences(folder / "licenses", of_torch)
    said = output(folder / "bin/popri", "--version").split()[1]
    if said.split("+")[0] != version:
        sys.exit(f"dist: the program says {said}, internal/version says {version}")


def files(folder):
    return [p for p in sorted(folder.rglob("*")) if p.is_file()]


def mode(path):
    return 0o755 if path.parent.name == "bin" else 0o644


def tarball(folder, out):
    with open(out, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as zipped, tarfile.open(
            fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in files(folder):
            info = tarfile.TarInfo(str(Path(folder.name, path.relative_to(folder))))
            info.size, info.mode = path.stat().st_size, mode(path)
            with open(path, "rb") as f:
                tar.addfile(info, f)


def wheel(folder, version):
    """The package of python/ with the distribution inside it."""
    tag, info = "py3-none-manylinux_2_28_x86_64", f"popri-{version}.dist-info"
    out, record = DIST / f"popri-{version}-{tag}.whl", io.StringIO()
    entries = [(f"popri/_dist/{p.relative_to(folder)}", p) for p in files(folder)]
    entries += [(str(p.relative_to(ROOT / "python")), p) for p in sorted((ROOT / "python/popri").glob("*.py*"))
                if p.is_file()]
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        def add(name, content, mode=0o644):
            entry = zipfile.ZipInfo(name)  # of 1980: the same bytes at any time
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            z.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.write(f"{name},sha256={digest},{len(content)}\n")

        for name, path in entries:
            add(name, path.read_bytes(), mode(path))
        add(f"{info}/METADATA", metadata(version).encode())
        add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: popri\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
        add(f"{info}/entry_points.txt", b"[console_scripts]\npopri = popri._program:main\n")
        record.write(f"{info}/RECORD,,\n")
        z.writestr(zipfile.ZipInfo(f"{info}/RECORD"), record.getvalue())
    return out


def metadata(version):
    import tomllib
    project = tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]
    lines = ["Metadata-Version: 2.1", "Name: popri", f"Version: {version}", f"Summary: {project['description']}",
             f"Requires-Python: {project['requires-python']}"]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {n}; extra == '{extra}'" for n in needs]
    return "\n".join(lines) + "\n"


def main():
    version = re.search(r'Release = "(.*)"', (ROOT / "internal/version/version.go").read_text())[1]
    BUILD.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    folder = BUILD / f"popri-{version}-linux-x86_64"
    stage(folder, version)
    archive = DIST / (folder.name + ".tar.gz")
    tarball(folder, archive)
    for made in (archive, wheel(folder, version)):
        print(f"{made.relative_to(ROOT)}  {made.stat().st_size / 1e6:.0f} MB")
    size = sum(p.stat().st_size for p in files(folder))
    largest = max(files(folder), key=lambda p: p.stat().st_size)
    print(f"unpacked {size / 1e6:.0f} MB, of which {largest.name} {largest.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
