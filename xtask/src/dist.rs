//! `cargo xtask dist`: the files of a release.
//!
//! ```text
//! windlass-VERSION-TARGET.tar.gz    the program, its completions, README and LICENSE     archive
//! windlass-VERSION-TARGET.cdx.json  the crates of the program                            sbom
//! registry/                         the packaged crates, as a registry of cargo          registry
//! SHA256SUMS                        the checksums of all of them
//! ```
//!
//! The same commit results in the same bytes: paths of the machine are replaced, and times are those of the commit.
//!
//! The functions that a start of `windlass up` executes come first in the program, if they are recorded, see [`order`].

mod archive;
mod symbols;
mod order;
pub(crate) mod link;
pub(crate) mod trace;
mod registry;
mod sbom;
pub(crate) mod stranger;
pub(crate) mod verify;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use clap::Args;

use crate::{
    Result,
    cargo::cargo,
    package::{self, Package, Uncommitted},
    upstream::root,
};

/// The preferred target: its program is static and runs on every Linux.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// C compilers for the preferred target. Its crates with C code need one of them.
const C_COMPILERS: &[&str] = &["musl-gcc", "x86_64-linux-musl-gcc"];

/// The shells with completions, and their file names.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "windlass.bash"),
    ("elvish", "windlass.elv"),
    ("fish", "windlass.fish"),
    ("powershell", "_windlass.ps1"),
    ("zsh", "_windlass"),
];

/// The version of all crates.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The options of a release.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The target of the program; defaults to x86_64-unknown-linux-musl if it can be built, else to this machine's
    #[arg(long)]
    target: Option<String>,
    /// The folder for the files; defaults to target/windlass-dist
    #[arg(long)]
    out: Option<PathBuf>,
    /// The profile of the program
    #[arg(long, default_value = "dist")]
    profile: String,
    /// A windlass that runs on this machine and writes the completions, if the target's does not run here
    #[arg(long)]
    windlass: Option<PathBuf>,
    /// Package files that are not committed
    #[arg(long)]
    allow_dirty: bool,
    /// Only write the registry and its checksums, without a program
    #[arg(long)]
    registry_only: bool,
}

/// Writes the files of a release.
pub(crate) fn run(options: &Options) -> Result {
    let out = options.out.clone().unwrap_or_else(|| root().join("target/windlass-dist"));
    fs::create_dir_all(&out).map_err(|error| format!("creating {}: {error}", out.display()))?;
    let uncommitted = if options.allow_dirty { Uncommitted::Allowed } else { Uncommitted::Refused };
    let mut files = registry_of(&package::pack(uncommitted)?, &out)?;
    if !options.registry_only {
        files.extend(program(options, &out)?);
    }
    let mut sums = String::new();
    for file in &files {
        let name = file.strip_prefix(&out).unwrap_or(file);
        sums += &format!("{}  {}\n", archive::checksum(file)?, name.display());
    }
    fs::write(out.join("SHA256SUMS"), sums)?;
    println!("{}: {} files with checksums", out.display(), files.len());
    Ok(())
}

/// Writes the registry. Returns its packages.
fn registry_of(packages: &[Package], out: &Path) -> Result<Vec<PathBuf>> {
    let folder = out.join("registry");
    registry::write(packages, &folder)?;
    Ok(packages.iter().map(|package| folder.join(format!("{}.crate", package.id()))).collect())
}

/// Builds the program and writes its archive and its bill of materials. Returns both files.
fn program(options: &Options, out: &Path) -> Result<[PathBuf; 2]> {
    let target = options.target.clone().map_or_else(default_target, Ok)?;
    let program = build(root(), &root().join("target"), &target, &options.profile)?;
    let name = format!("windlass-{VERSION}-{target}");
    let folder = out.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let completions = folder.join("completions");
    fs::create_dir_all(&completions)?;
    fs::copy(&program, folder.join("windlass"))?;
    for file in ["CHANGELOG.md", "LICENSE", "README.md"] {
        fs::copy(root().join(file), folder.join(file))?;
    }
    let windlass = options.windlass.as_ref().unwrap_or(&program);
    for (shell, file) in COMPLETIONS {
        let output = Command::new(windlass).args(["completion", shell]).output().map_err(|error| {
            format!("running {}: {error}; --windlass names a windlass for this machine", windlass.display())
        })?;
        if !output.status.success() {
            return Err(format!("windlass completion {shell}: {}", output.status).into());
        }
        fs::write(completions.join(file), output.stdout)?;
    }
    let [archive, bill] = ["tar.gz", "cdx.json"].map(|extension| out.join(format!("{name}.{extension}")));
    archive::write(&folder, &archive, commit_time()?)?;
    fs::remove_dir_all(&folder)?;
    let lock = fs::read_to_string(root().join("Cargo.lock"))?;
    let document = sbom::document("windlass-cli", &target, &lock)?;
    fs::write(&bill, format!("{document:#}\n"))?;
    Ok([archive, bill])
}

/// Builds the program of the workspace in `source`, with its functions in the order of the list. Returns its path.
fn build(source: &Path, target_directory: &Path, target: &str, profile: &str) -> Result<PathBuf> {
    let ordered = match order::unpack(source, target_directory)? {
        Some(list) => link::arguments(target, &list)?.map(|arguments| (list, arguments)),
        None => Err(format!("{} is not recorded", order::LIST)),
    };
    let mut cargo = cargo_for(source, target_directory)?;
    cargo.args(["rustc", "--locked", "--package=windlass-cli", "--bin=windlass"]);
    cargo.args(["--target", target, "--profile", profile]);
    if let Ok((_, arguments)) = &ordered {
        cargo.arg("--").args(arguments);
    }
    if !cargo.status()?.success() {
        return Err(format!("building windlass for {target} failed").into());
    }
    let folder = if profile == "dev" { "debug" } else { profile };
    let program = target_directory.join(target).join(folder).join("windlass");
    let description = match ordered {
        Ok((list, _)) => order::List::read(&list)?.placement(&symbols::functions(&program)?).check()?,
        Err(reason) => format!("the functions are in the default order: {reason}"),
    };
    println!("{}: {description}", program.display());
    Ok(program)
}

/// Returns a cargo command whose output does not depend on paths and times of the machine.
fn cargo_for(source: &Path, target_directory: &Path) -> Result<Command> {
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(env::home_dir()?.join(".cargo"))).ok_or("CARGO_HOME is not known")?;
    // The more specific path comes last, because rustc applies the last one that matches.
    let paths = [(cargo_home.as_path(), "cargo"), (source, "windlass"), (target_directory, "target")];
    let flags = |flag: &str| {
        let flags = paths.iter().map(|(path, name)| format!("{flag}={}=/{name}", path.display()));
        flags.collect::<Vec<_>>()
    };
    let mut rustflags = flags("--remap-path-prefix");
    // The older names have no generic arguments, so they do not distinguish the functions of the list.
    rustflags.push("-Csymbol-mangling-version=v0".to_owned());
    let mut cargo = cargo();
    cargo
        .current_dir(source)
        .env("CARGO_TARGET_DIR", target_directory)
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags.join("\x1f"))
        .env("CFLAGS", flags("-ffile-prefix-map").join(" "))
        .env("SOURCE_DATE_EPOCH", commit_time()?.to_string());
    Ok(cargo)
}

/// Returns the static target if it can be built here, and this machine's target otherwise.
fn default_target() -> Result<String> {
    let is_installed = Path::new(&rustc(&["--print=target-libdir", "--target", STATIC])?).is_dir();
    let has_compiler = C_COMPILERS.iter().any(|compiler| Command::new(compiler).arg("--version").output().is_ok());
    if is_installed && has_compiler {
        return Ok(STATIC.to_owned());
    }
    let missing = if is_installed { "no musl-gcc for its C code" } else { "the target is not installed by rustup" };
    let host = rustc(&["--print=host-tuple"])?;
    println!(
        "{STATIC} cannot be built: {missing}. Building for {host}: the program needs a glibc as new as this machine's."
    );
    Ok(host)
}

/// Returns the output of rustc.
fn rustc(arguments: &[&str]) -> Result<String> {
    let output = Command::new("rustc").args(arguments).output().map_err(|error| format!("starting rustc: {error}"))?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Returns the time of the current commit in seconds, or `SOURCE_DATE_EPOCH`.
fn commit_time() -> Result<u64> {
    if let Some(time) = env::var_os("SOURCE_DATE_EPOCH") {
        let time = time.to_str().and_then(|time| time.parse().ok());
        return time.ok_or_else(|| "SOURCE_DATE_EPOCH is not a number of seconds".into());
    }
    let output = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()).output()?;
    let time = String::from_utf8(output.stdout)?;
    time.trim().parse().map_err(|_| "git log: no commit, and SOURCE_DATE_EPOCH is not set".into())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use crate::upstream::root;

    /// Released programs are optimized as a whole, though `dist` inherits from `dev`.
    #[test]
    fn dist_replaces_each_level_of_dev() {
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let packages = |profile: &str| -> BTreeSet<String> {
            let (_, section) = manifest.split_once(&format!("[profile.{profile}.package]\n")).unwrap();
            let lines = section.lines().take_while(|line| !line.starts_with('['));
            lines.filter_map(|line| Some(line.split_once(".opt-level")?.0.to_owned())).collect()
        };
        let (dev, dist) = (packages("dev"), packages("dist"));
        assert!(!dev.is_empty());
        assert_eq!(dev.difference(&dist).collect::<Vec<_>>(), [""; 0]);
    }
}
