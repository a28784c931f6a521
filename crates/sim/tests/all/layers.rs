//! The modules of the simulator have an order, and each names only those below it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The modules from the lowest to the highest. A folder stands for all modules in it except those that have an entry of their own.
const ORDER: &[&str] = &[
    // How files are read and written.
    "file",
    "place",
    "line",
    "text",
    // The order of events, and what is due next.
    "ties",
    "calendar",
    "kernel",
    // Copies of a stream at one port.
    "overload",
    // METS nodes, as they are written and as they are reported.
    "scenario",
    "summary",
    // Internetworks: what is to be simulated, and what is reported.
    "internet/error",
    "internet/limit",
    "internet/medium/ecmp",
    "internet/discipline",
    "internet/network",
    "internet/generated",
    "internet/series",
    "internet/report",
    "internet/measure",
    // The order of events.
    "internet/engine",
    // What carries packets; the backbone is a part of it.
    "internet/medium/user",
    "internet/medium/peered",
    "internet/medium/packet",
    "internet/medium/pipe",
    "internet/medium/addresses",
    "internet/medium/hop",
    "internet/medium/table",
    "internet/medium/routes",
    "internet/medium/tree",
    "internet/atm",
    "internet/medium",
    "internet/components",
    "internet/check",
    // What nodes hold.
    "internet/node/stream",
    "internet/node/tcp",
    "internet/node/xtp",
    "internet/node/mets",
    "internet/node/icmp",
    "internet/node/external",
    // What uses hosts.
    "internet/users",
    "internet/users/draw",
    "internet/users/group",
    "internet/users/flows",
    "internet/users/apps",
    "internet/users/transfers",
    // All of them together, and in threads.
    "internet/world",
    "internet/parallel",
    // Scenarios of internetworks.
    "internet/scenario",
    // Reliable multicast.
    "group",
    "group/scenario",
];

/// The type of the world, and the only module beside its own that may name it: all others take the parts they use.
const WORLD: &str = "internet/world::Internet";
const NAMES_THE_WORLD: &str = "internet/parallel";

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The source files, each with the path of its module; without tests, and without those that only declare modules.
fn files(folder: &Path, module: &[String], found: &mut Vec<(Vec<String>, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let inner = [module, std::slice::from_ref(&name)].concat();
        if path.is_dir() {
            files(&path, &inner, found);
            continue;
        }
        let is_test = inner.iter().any(|it| it == "tests") || name == "random";
        if is_test
            || name == "lib"
            || (name == "mod" && module.len() == 1 && module[0] != "scenario")
        {
            continue;
        }
        let module = if name == "mod" {
            module.to_vec()
        } else {
            inner
        };
        let text = std::fs::read_to_string(&path).unwrap();
        if !declares_only(&text) {
            found.push((module, text));
        }
    }
}

/// Whether a file has nothing but modules.
fn declares_only(text: &str) -> bool {
    let code = text.lines().filter(|line| !line.starts_with("//"));
    let mut code = code.filter(|line| !line.is_empty());
    code.all(|line| line.contains("mod ") && line.ends_with(';'))
}

/// The place in the order of a module or of a name in it.
fn unit(path: &[String]) -> Option<usize> {
    let names = [path.get(..3), path.get(..2), path.get(..1)];
    let mut names = names.into_iter().flatten().map(|it| it.join("/"));
    names.find_map(|name| ORDER.iter().position(|it| *it == name))
}

/// All paths from `crate` or `super` that a file names, from the root of the crate on.
fn paths(module: &[String], text: &str) -> BTreeSet<Vec<String>> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = &code[..at];
            // Not within a path, and not in a visibility.
            if !before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
                && !before.ends_with("(in ")
            {
                expand(&code[at..], &mut Vec::new(), &mut found);
            }
        }
    }
    let absolute = |path: Vec<String>| {
        let mut base = match path[0].as_str() {
            "crate" => Vec::new(),
            _ => module.to_vec(),
        };
        let steps = path.into_iter();
        for step in steps.filter(|it| it != "crate") {
            match step.as_str() {
                "super" => drop(base.pop()),
                _ => base.push(step),
            }
        }
        base
    };
    found.into_iter().map(absolute).collect()
}

/// Reads a path that may end in braces; gives what follows.
fn expand<'a>(
    text: &'a str,
    prefix: &mut Vec<String>,
    found: &mut BTreeSet<Vec<String>>,
) -> &'a str {
    let depth = prefix.len();
    let mut rest = text.trim_start();
    loop {
        if let Some(mut inner) = rest.strip_prefix('{') {
            loop {
                inner = expand(inner, prefix, found).trim_start();
                if inner.starts_with("as ") {
                    inner = &inner[inner.find([',', '}']).unwrap_or(inner.len())..];
                }
                match inner.strip_prefix(',') {
                    Some(next) if next.trim_start().starts_with('}') => inner = next.trim_start(),
                    Some(next) => {
                        inner = next;
                        continue;
                    }
                    None => {}
                }
                rest = inner.strip_prefix('}').unwrap_or(inner);
                break;
            }
            break;
        }
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        prefix.push(rest[..end].to_owned());
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(next) if next.starts_with(|c: char| c.is_alphabetic() || c == '{' || c == '_') => {
                rest = next
            }
            _ => {
                found.insert(prefix.clone());
                break;
            }
        }
    }
    prefix.truncate(depth);
    rest
}

#[test]
fn each_module_names_only_those_below_it() {
    let mut all = Vec::new();
    files(&src(), &[], &mut all);
    assert!(all.len() > 100, "{}", all.len());
    let (mut wrong, mut worlds, mut seen) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (module, text) in &all {
        let own = unit(module)
            .unwrap_or_else(|| panic!("{module:?} has no place in the order: give it one"));
        seen.insert(own);
        for path in paths(module, text) {
            let Some(other) = unit(&path) else {
                if path.len() > 1
                    || path
                        .first()
                        .is_some_and(|it| it.starts_with(char::is_lowercase))
                {
                    wrong.insert(format!(
                        "{} names {}: import it from its module",
                        ORDER[own],
                        path.join("::")
                    ));
                }
                continue;
            };
            let name = format!("{}::{}", ORDER[other], path.last().unwrap());
            if other != own && name == WORLD {
                worlds.insert(ORDER[own]);
            }
            if other > own {
                wrong.insert(format!(
                    "{} names {}, which is above it",
                    ORDER[own],
                    path.join("::")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(worlds, BTreeSet::from([NAMES_THE_WORLD]));
    let gone: Vec<&str> = (0..ORDER.len())
        .filter(|it| !seen.contains(it))
        .map(|it| ORDER[it])
        .collect();
    assert!(gone.is_empty(), "in the order, and no file: {gone:?}");
}

#[test]
fn paths_are_read() {
    let text =
        "use super::{a::{B, C as D}, e};\n// crate::f\nfn g() -> crate::h::I { super::j::k() }\n";
    let module = ["x".to_owned(), "y".to_owned()];
    let found: Vec<String> = paths(&module, text)
        .iter()
        .map(|it| it.join("::"))
        .collect();
    assert_eq!(found, ["h::I", "x::a::B", "x::a::C", "x::e", "x::j::k"]);
}
