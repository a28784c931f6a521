//! The arrows of docs/src/explanation/architecture.md, held against what cargo sees, and sans-I/O held against the
//! libraries and words a crate uses.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The dependencies permitted between crates: a crate may use every crate of a lower storey, none of its own.
const STOREYS: &[&[&str]] = &[
    &["core"],
    &[
        "wire",
        "qos",
        "profile",
        "monitor",
        "snmp",
        "media",
        "protect",
        "atm",
        "workload",
        "fec",
        "admission",
        "ilp",
        "sync-index",
        "nif",
    ],
    &["bytestream", "repair", "picture", "ilp-macros"],
    &["tcp", "xtp", "link", "multicast", "partial-order"],
    &["mets", "host"],
    &["sim", "net"],
    &["api"],
    &["web"],
    &["cli", "python", "c"],
];

/// Rooms without sockets, clocks, threads or global randomness.
const SANS_IO: &[&str] = &[
    "core",
    "wire",
    "qos",
    "profile",
    "monitor",
    "snmp",
    "media",
    "protect",
    "atm",
    "workload",
    "fec",
    "repair",
    "picture",
    "admission",
    "ilp",
    "sync-index",
    "nif",
    "bytestream",
    "tcp",
    "xtp",
    "link",
    "multicast",
    "partial-order",
    "mets",
    "host",
    "sim",
];

/// Libraries and words that would bring them in.
const IO_LIBRARIES: &[&str] = &[
    "tokio",
    "quinn-udp",
    "socket2",
    "rustix",
    "nix",
    "libc",
    "mio",
    "rand",
    "getrandom",
];
const IO_WORDS: &[&str] = &[
    "std::net",
    "std::thread",
    "Instant::now",
    "SystemTime",
    "thread_rng",
    "RandomState",
    "SystemRandom",
];

/// Threads that each drive a part of a simulated network, whose machines know nothing of it.
const DRIVES_THREADS: &str = "sim/src/internet/parallel/mod.rs";

/// Whether a panic unwinds: it asks the thread that runs anyway.
const UNWINDS: &str = "std::thread::panicking()";

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// What cargo knows of the workspace.
fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(workspace())
        .output()
        .expect("cargo metadata runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

/// Every room with its direct dependencies (without those of its tests).
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let metadata = metadata();
    let room = |name: &str| match name {
        "layercast" => Some("api".to_owned()),
        name => name.strip_prefix("layercast-").map(str::to_owned),
    };
    metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|package| {
            let uses = package["dependencies"].as_array().expect("dependencies");
            let uses = uses
                .iter()
                .filter(|dependency| dependency["kind"].is_null());
            let uses = uses.map(|dependency| dependency["name"].as_str().expect("name").to_owned());
            (
                room(package["name"].as_str().expect("name")).expect("a room"),
                uses.collect(),
            )
        })
        .collect()
}

fn storey(room: &str) -> usize {
    let found = STOREYS.iter().position(|rooms| rooms.contains(&room));
    found.unwrap_or_else(|| {
        panic!("room {room} stands on no storey: add it here and to docs/src/explanation/architecture.md")
    })
}

/// All examples are built into one folder: of two with one name, the last one built is the one that runs.
#[test]
fn examples_have_names_of_their_own() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let targets = packages
        .iter()
        .flat_map(|it| it["targets"].as_array().expect("targets"));
    let examples = targets.filter(|it| it["kind"][0] == "example");
    let mut names: Vec<&str> = examples
        .map(|it| it["name"].as_str().expect("a name"))
        .collect();
    names.sort_unstable();
    assert!(names.len() > 10, "{names:?}");
    let twice = names.windows(2).find(|it| it[0] == it[1]);
    assert_eq!(twice, None);
}

#[test]
fn dependencies_point_downwards_only() {
    for (room, uses) in dependencies() {
        for used in uses
            .iter()
            .filter_map(|name| name.strip_prefix("layercast-"))
        {
            assert!(
                storey(used) < storey(&room),
                "{room} depends on {used}, which is not below it"
            );
        }
    }
}

#[test]
fn protocol_rooms_use_no_io_library() {
    for (room, uses) in dependencies() {
        if SANS_IO.contains(&room.as_str()) {
            let bad: Vec<_> = uses
                .iter()
                .filter(|name| IO_LIBRARIES.contains(&name.as_str()))
                .collect();
            assert!(bad.is_empty(), "{room} is sans-I/O but uses {bad:?}");
        }
    }
}

#[test]
fn protocol_rooms_touch_no_socket_clock_thread_or_global_randomness() {
    for room in SANS_IO {
        sources(
            &workspace().join("crates").join(room).join("src"),
            &mut |path, text| {
                let text = text.replace(UNWINDS, "");
                let may = |word: &str| word == "std::thread" && path.ends_with(DRIVES_THREADS);
                for word in IO_WORDS.iter().filter(|word| !may(word)) {
                    assert!(!text.contains(word), "{} says {word}", path.display());
                }
            },
        );
    }
}

#[test]
fn net_and_sim_hold_no_protocol() {
    // They may drive machines, never be one.
    for room in ["net", "sim"] {
        sources(
            &workspace().join("crates").join(room).join("src"),
            &mut |path, text| {
                assert!(
                    !text.contains("impl Machine for"),
                    "{} implements a machine",
                    path.display()
                );
            },
        );
    }
}

fn sources(folder: &Path, check: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).expect("a source folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, check);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            check(
                &path,
                &std::fs::read_to_string(&path).expect("a source file"),
            );
        }
    }
}
