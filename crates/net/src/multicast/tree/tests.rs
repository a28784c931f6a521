use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::*;

fn folder(name: &str) -> PathBuf {
    let own = format!("layercast-tree-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(own);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn paths(plan: &SendPlan) -> Vec<String> {
    let all = 0..plan.manifest.entries().len() as u32;
    all.map(|at| {
        let names = plan.manifest.path(at);
        let names: Vec<_> = names
            .into_iter()
            .map(|it| String::from_utf8_lossy(it))
            .collect();
        names.join("/")
    })
    .collect()
}

#[test]
fn a_tree_is_listed_with_empty_folders_modes_and_times() {
    let top = folder("whole");
    fs::create_dir_all(top.join("t/empty")).unwrap();
    fs::create_dir_all(top.join("t/.git")).unwrap();
    fs::write(top.join("t/.git/back\\slash"), "abc").unwrap();
    let script = top.join("t/run");
    fs::write(&script, "#!").unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o4750)).unwrap();
    symlink("/etc/passwd", top.join("t/link")).unwrap();
    let plan = SendPlan::of(&[top.join("t")], TreeOptions::default()).unwrap();
    assert_eq!(
        paths(&plan),
        ["t", "t/.git", "t/.git/back\\slash", "t/empty", "t/run"]
    );
    assert_eq!((plan.files(), plan.folders(), plan.octets()), (2, 3, 5));
    let run = &plan.manifest.entries()[4];
    assert_eq!(run.mode, 0o750, "no set-user-ID bit");
    assert_eq!(run.modified, modified(&fs::metadata(&script).unwrap()));
    assert_eq!(plan.skipped, [top.join("t/link")]);
    let follow = TreeOptions {
        follow: true,
        ..TreeOptions::default()
    };
    let followed = SendPlan::of(&[top.join("t")], follow).unwrap();
    assert_eq!(followed.files(), 3);
    symlink("..", top.join("t/empty/up")).unwrap();
    let faults = SendPlan::of(&[top.join("t")], follow).unwrap_err();
    assert!(faults[0].why.contains("leads back"), "{faults:?}");
    fs::remove_dir_all(top).unwrap();
}

#[test]
fn every_input_that_cannot_be_sent_is_named_before_the_start() {
    let top = folder("faults");
    fs::create_dir_all(top.join("t")).unwrap();
    let _socket = UnixListener::bind(top.join("t/socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        top.join("t/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    fs::write(top.join("t/a\u{202e}b"), "x").unwrap();
    fs::write(top.join("good"), "x").unwrap();
    let inputs = ["nosuch", "good", "t", "neither"].map(|it| top.join(it));
    let inputs = [&inputs[..], &[PathBuf::from("/proc/cpuinfo")]].concat();
    let faults = SendPlan::of(&inputs, TreeOptions::default()).unwrap_err();
    let messages: Vec<String> = faults
        .iter()
        .map(|it| format!("{}: {}", it.path.display(), it.why))
        .collect();
    for words in [
        "nosuch: no such",
        "pipe: it is a named pipe",
        "socket: it is a socket",
        "U+202E",
        "neither: no such",
        "as in /proc",
    ] {
        assert!(
            messages.iter().any(|it| it.contains(words)),
            "{words}: {messages:#?}"
        );
    }
    assert_eq!(messages.len(), 6);
    fs::remove_dir_all(top).unwrap();
}

#[test]
fn inputs_of_one_name_get_numbers_and_the_same_one_is_sent_once() {
    let top = folder("names");
    for one in ["a", "b"] {
        fs::create_dir_all(top.join(one)).unwrap();
        fs::write(top.join(one).join("x.txt"), one).unwrap();
    }
    fs::write(top.join(".hidden\n"), "h").unwrap();
    let inputs = ["a/x.txt", "b/x.txt", "a/x.txt", ".hidden\n"].map(|it| top.join(it));
    let plan = SendPlan::of(&inputs, TreeOptions::default()).unwrap();
    assert_eq!(paths(&plan), ["x.txt", "x~1.txt", "_hidden_"]);
    assert_eq!(plan.renamed.len(), 2);
    assert_eq!(with_number("n".repeat(255).as_bytes(), 7).len(), 255);
    fs::remove_dir_all(top).unwrap();
}

#[test]
fn names_inside_a_tree_are_changed_only_on_demand() {
    let top = folder("rename");
    fs::create_dir_all(top.join("t")).unwrap();
    fs::write(top.join("t/a\nb"), "1").unwrap();
    fs::write(top.join("t/a_b"), "2").unwrap();
    assert!(SendPlan::of(&[top.join("t")], TreeOptions::default()).is_err());
    let rename = TreeOptions {
        rename: true,
        ..TreeOptions::default()
    };
    // Two that become the same, and files with that name and the first numbers, which keep theirs.
    fs::write(top.join("t/a\rb"), "3").unwrap();
    fs::write(top.join("t/a_b~1"), "4").unwrap();
    let plan = SendPlan::of(&[top.join("t")], rename).unwrap();
    assert_eq!(
        paths(&plan),
        ["t", "t/a_b~2", "t/a_b~3", "t/a_b", "t/a_b~1"]
    );
    let renamed: Vec<_> = plan
        .renamed
        .iter()
        .map(|(path, name)| (path.clone(), &**name))
        .collect();
    assert_eq!(
        renamed,
        [(top.join("t/a\nb"), "a_b~2"), (top.join("t/a\rb"), "a_b~3")]
    );
    fs::remove_dir_all(top).unwrap();
}
