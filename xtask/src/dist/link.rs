//! The linker of released programs: links twice, the second time with the listed functions first.
//!
//! rustc calls `xtask` as its linker. LLD orders functions by their symbols, whose hashes are known only after the
//! program is linked. A second link takes seconds; a second run of rustc would repeat the optimization of the program.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{order::List, rustc, symbols};
use crate::{Result, cargo::succeed};

/// The argument that names the list.
const LIST: &str = "--windlass-list=";

/// The argument that names the actual linker.
const LINKER: &str = "--windlass-linker=";

/// One call of the linker by rustc.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    list: PathBuf,
    linker: OsString,
    /// The arguments of rustc.
    arguments: Vec<OsString>,
}

impl Link {
    /// Returns the call with these arguments of the process, or `None` if they are those of a task.
    pub(crate) fn from_arguments(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let (mut list, mut linker, mut others) = (None, None, Vec::new());
        for argument in arguments {
            let value = |name: &str| argument.to_str().and_then(|text| text.strip_prefix(name)).map(OsString::from);
            if let Some(path) = value(LIST) {
                list = Some(path.into());
            } else if let Some(program) = value(LINKER) {
                linker = Some(program);
            } else {
                others.push(argument);
            }
        }
        Some(Self { list: list?, linker: linker?, arguments: others })
    }

    /// Links the program.
    pub(crate) fn run(&self) -> Result {
        let output = self.output().ok_or("the linker's arguments have no -o")?;
        succeed(&mut self.command())?;
        let ordering = List::read(&self.list)?.ordering(&symbols::functions(output)?);
        let file = output.with_extension("order");
        fs::write(&file, ordering)?;
        let mut option = OsString::from("-Wl,--symbol-ordering-file=");
        option.push(&file);
        succeed(self.command().arg(option).arg("-Wl,--no-warn-symbol-ordering"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.linker);
        command.args(&self.arguments);
        command
    }

    /// Returns the path of the linked program.
    fn output(&self) -> Option<&Path> {
        let at = self.arguments.iter().position(|argument| argument == "-o")?;
        self.arguments.get(at + 1).map(Path::new)
    }
}

/// Returns rustc's arguments for the last crate that link it by this program, or the reason why that is not possible for
/// the target.
pub(super) fn arguments(target: &str, list: &Path) -> Result<std::result::Result<Vec<OsString>, String>> {
    if !target.contains("-linux-") {
        return Ok(Err("only programs for Linux are ordered".into()));
    }
    let host = rustc(&["--print=host-tuple"])?;
    // The folder of rustc's LLD, where the C compiler finds it under the usual name.
    let folder = Path::new(&rustc(&["--print=sysroot"])?).join("lib/rustlib").join(host).join("bin/gcc-ld");
    if !folder.join("ld.lld").is_file() {
        return Ok(Err(format!("{} has no LLD", folder.display())));
    }
    let variable = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
    let linker = env::var_os(variable).unwrap_or_else(|| "cc".into());
    let with = |prefix: &str, value: &OsStr| {
        let mut argument = OsString::from(prefix);
        argument.push(value);
        argument
    };
    Ok(Ok(vec![
        with("-Clinker=", env::current_exe()?.as_os_str()),
        "-Clink-arg=-fuse-ld=lld".into(),
        with("-Clink-arg=-B", folder.as_os_str()),
        with(&format!("-Clink-arg={LIST}"), list.as_os_str()),
        with(&format!("-Clink-arg={LINKER}"), &linker),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(arguments: &[&str]) -> Option<Link> {
        Link::from_arguments(arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments_of_rustc_are_separated_from_ours() {
        let link =
            link(&["-m64", "--windlass-list=/l.txt", "a.o", "-o", "/t/windlass", "--windlass-linker=cc"]).unwrap();
        assert_eq!((link.list.as_path(), link.linker.as_os_str()), (Path::new("/l.txt"), OsStr::new("cc")));
        assert_eq!(link.arguments, ["-m64", "a.o", "-o", "/t/windlass"]);
        assert_eq!(link.output(), Some(Path::new("/t/windlass")));
    }

    #[test]
    fn arguments_of_a_task_are_no_call_of_the_linker() {
        assert_eq!(link(&["dist", "--target", "x86_64-unknown-linux-musl"]), None);
    }

    #[test]
    fn other_systems_keep_the_default_order() {
        let reason = arguments("aarch64-apple-darwin", Path::new("/l.txt")).unwrap().unwrap_err();
        assert_eq!(reason, "only programs for Linux are ordered");
    }
}
