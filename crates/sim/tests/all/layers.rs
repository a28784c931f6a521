//! The modules of the simulator have an order, and each names only those below it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The modules from the lowest to the highest. A folder stands for all modules in it except those that have an entry of their own.
const ORDER: &[&str] = &[
    // How files are read and written.
    "file",
    "line",
    "text",
    // The order of events, and what is due next.
    "ties",
    "calendar",
    "kernel",
    // Copies of a stream at one port.
    "overload",
    // METS nodes, as they are written and as they run.
    "scenario",
    "summary",
    "wire_check",
    "wires",
    "node",
    "script",
    "world",
    "repair",
    "exchange",
    "outcome",
    // Internetworks: what is to be simulated, and what is reported.
    "internet/error",
    "internet/network",
    "internet/report",
    "internet/measure",
    // What carries packets.
    "internet/packet",
    "internet/pipe",
    "internet/hop",
    "internet/table",
    "internet/routes",
    "internet/tree",
    "internet/paths",
    "internet/inbox",
    "internet/source",
    "internet/atm",
    "internet/check",
    "internet/build",
    "internet/components",
    "internet/classes",
    // Hosts and routers.
    "internet/stream",
    "internet/addresses",
    "internet/xtp",
    "internet/hosts",
    "internet/mets",
    "internet/icmp",
    "internet/external",
    // What uses and watches them.
    "internet/group",
    "internet/flows",
    "internet/apps",
    "internet/capture",
    "internet/trace",
    // The world, and its parts in threads.
    "internet/ahead",
    "internet/division",
    "internet/share",
    "internet/world",
    "internet/forward",
    "internet/parallel",
    // Scenarios of internetworks.
    "internet/scenario",
    // Reliable multicast.
    "group",
    "group/scenario",
];

/// Modules that name a world, each with the world: files that hold a part of its methods. There are to be fewer.
const NAME_A_WORLD: &[&str] = &[
    "exchange",
    "internet/ahead",
    "internet/apps",
    "internet/atm",
    "internet/capture",
    "internet/classes",
    "internet/division",
    "internet/external",
    "internet/flows",
    "internet/forward",
    "internet/group",
    "internet/hosts",
    "internet/inbox",
    "internet/mets",
    "internet/parallel",
    "internet/paths",
    "internet/share",
    "internet/trace",
    "internet/xtp",
    "outcome",
    "repair",
    "script",
];

const WORLDS: &[&str] = &["internet/world::Internet", "world::World"];

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
        found.push((module, text));
    }
}

/// The place in the order of a module or of a name in it.
fn unit(path: &[String]) -> Option<usize> {
    let names = [path.get(..2), path.get(..1)];
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
    let (mut wrong, mut worlds) = (BTreeSet::new(), BTreeSet::new());
    for (module, text) in &all {
        let own = unit(module)
            .unwrap_or_else(|| panic!("{module:?} has no place in the order: give it one"));
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
            if other != own && WORLDS.contains(&name.as_str()) {
                worlds.insert(ORDER[own]);
            } else if other > own {
                wrong.insert(format!(
                    "{} names {}, which is above it",
                    ORDER[own],
                    path.join("::")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let known: BTreeSet<&str> = NAME_A_WORLD.iter().copied().collect();
    assert_eq!(worlds, known, "modules that name a world");
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
