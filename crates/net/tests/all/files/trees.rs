//! Folders, and files that change or vanish while they are sent.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use layercast_multicast::{Failure, Outcome};
use layercast_net::{NetError, SendPlan, SendReport, TreeOptions, send_files, send_plan};

use super::*;

fn about(path: &Path) -> Metadata {
    fs::symlink_metadata(path).unwrap()
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

async fn report(config: SendConfig) -> SendReport {
    let (told, _) = mpsc::channel(1);
    let mut off = Off;
    let sending = send_files(config, CancellationToken::new(), told, &mut off);
    timeout(LONG, sending).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_tree_arrives_with_empty_folders_modes_and_times() {
    let folder = folder("tree");
    let top = folder.join("top");
    fs::create_dir_all(top.join("empty")).unwrap();
    fs::create_dir_all(top.join("sub/.git")).unwrap();
    let (_, content) = make(&top.join("sub"), "large.bin", 300_001);
    fs::write(top.join("sub/.git/back\\slash"), "x").unwrap();
    fs::write(top.join("none"), "").unwrap();
    mode(&top.join("sub/large.bin"), 0o640);
    mode(&top.join("sub/.git"), 0o500);
    let receivers = [1, 2].map(|member| receiver(member, &folder.join(format!("r{member}"))));
    let to = receivers.iter().map(|it| it.addr).collect();
    let report = report(config(&[&top], to, 200)).await;
    assert_eq!(
        (report.files, report.sent.len(), report.withheld.len()),
        (3, 3, 0)
    );
    assert!(
        report.sent.iter().all(|file| delivered(file) == 2),
        "{report:#?}"
    );
    for it in receivers {
        let out = it.out.clone();
        assert_eq!(it.end().await.len(), 3);
        only(&out, &["top"]);
        assert!(fs::read(out.join("top/sub/large.bin")).unwrap() == content);
        for path in [
            "",
            "empty",
            "none",
            "sub",
            "sub/large.bin",
            "sub/.git",
            "sub/.git/back\\slash",
        ] {
            let (theirs, ours) = (about(&top.join(path)), about(&out.join("top").join(path)));
            assert_eq!(ours.mode() & 0o7777, theirs.mode() & 0o777, "{path}");
            let times = [&theirs, &ours].map(|it| (it.mtime(), it.mtime_nsec()));
            assert_eq!(times[0], times[1], "{path}");
        }
        mode(&out.join("top/sub/.git"), 0o700);
    }
    mode(&top.join("sub/.git"), 0o700);
}

#[tokio::test]
async fn folders_without_a_file_are_a_transfer() {
    let folder = folder("tree-empty");
    fs::create_dir_all(folder.join("top/a/b")).unwrap();
    let it = receiver(1, &folder.join("r1"));
    let report = report(config(&[&folder.join("top")], vec![it.addr], 100)).await;
    assert_eq!((report.files, report.sent.len()), (0, 0));
    assert_eq!(delivered(report.manifest.as_ref().unwrap()), 1);
    let out = it.out.clone();
    assert_eq!(it.end().await.len(), 0);
    assert!(out.join("top/a/b").is_dir());
}

#[tokio::test]
async fn a_symbolic_link_in_the_folder_leads_nobody_out_of_it() {
    let folder = folder("tree-link");
    fs::create_dir_all(folder.join("top/sub")).unwrap();
    fs::write(folder.join("top/sub/a"), "new").unwrap();
    fs::write(folder.join("top/b"), "b").unwrap();
    let out = folder.join("r1");
    fs::create_dir_all(out.join("top")).unwrap();
    fs::create_dir_all(folder.join("elsewhere")).unwrap();
    symlink(folder.join("elsewhere"), out.join("top/sub")).unwrap();
    let it = receiver(1, &out);
    let report = report(config(&[&folder.join("top")], vec![it.addr], 100)).await;
    assert_eq!(fs::read_dir(folder.join("elsewhere")).unwrap().count(), 0);
    let failed = report
        .sent
        .iter()
        .filter(|file| delivered(file) == 0)
        .count();
    assert_eq!(failed, 1, "{report:#?}");
    let received = timeout(LONG, it.task).await.unwrap().unwrap().unwrap();
    assert!(!received.listed, "the folder of the list cannot be made");
    let files = received.files;
    let bad = files.iter().find(|file| file.path.is_none()).unwrap();
    assert!(
        bad.error.as_ref().unwrap().contains("symbolic link"),
        "{bad:?}"
    );
    assert_eq!(fs::read_to_string(out.join("top/b")).unwrap(), "b");
}

/// Sends `path` to a receiver of `out`, which ends after that.
async fn once(path: &Path, out: &Path) -> Vec<ReceivedFile> {
    let it = receiver(1, out);
    assert_eq!(
        delivered(&send(config(&[path], vec![it.addr], 100)).await[0]),
        1
    );
    it.end().await
}

#[tokio::test]
async fn a_file_that_was_given_a_number_is_recognised() {
    let folder = folder("numbered");
    let (path, content) = make(&folder, "a", 10_000);
    let out = folder.join("r1");
    fs::create_dir_all(&out).unwrap();
    // Another file has the name and the size.
    fs::write(out.join("a"), vec![7; content.len()]).unwrap();
    for again in [false, true, true] {
        let files = once(&path, &out).await;
        assert_eq!(files[0].path, Some(out.join("a~1")));
        assert_eq!(files[0].stats.data == 0, again);
        only(&out, &["a", "a~1"]);
    }
    assert_eq!(fs::read(out.join("a~1")).unwrap(), content);
}

#[tokio::test]
async fn a_file_that_is_announced_again_counts_once() {
    let folder = folder("announced-again");
    let (path, _) = make(&folder, "a", 10_000);
    let out = folder.join("r1");
    fs::create_dir_all(&out).unwrap();
    let it = begin(ReceiveConfig {
        forever: true,
        ..receiver_at(1, &out, localhost(), u64::MAX)
    });
    for _ in 0..3 {
        send(config(&[&path], vec![it.addr], 100)).await;
    }
    it.stop.cancel();
    let received = timeout(LONG, it.task).await.unwrap().unwrap().unwrap();
    assert_eq!((received.files.len(), received.missing), (1, 0));
}

#[real_time(tokio)]
async fn the_patience_of_a_receiver_begins_with_the_last_packet() {
    let folder = folder("patience");
    let (path, _) = make(&folder, "a", 4_000_000);
    let out = folder.join("r1");
    fs::create_dir_all(&out).unwrap();
    let it = begin(ReceiveConfig {
        patience: Span::from_secs(1),
        ..receiver_at(1, &out, localhost(), u64::MAX)
    });
    let sending = start(
        config(&[&path], vec![it.addr], 4),
        &CancellationToken::new(),
    );
    sleep(Duration::from_millis(700)).await;
    // As `kill -9`: no word to the receiver.
    sending.abort();
    let received = timeout(Duration::from_secs(4), it.task).await;
    let received = received.expect("it gives up").unwrap().unwrap();
    assert_eq!(
        (received.ended, received.missing, received.files.len()),
        (Ended::Patience, 1, 0)
    );
}

#[real_time(tokio)]
async fn a_name_stays_with_one_receiver_for_all_files() {
    let folder = folder("one-name");
    let files: Vec<PathBuf> = (0..6)
        .map(|n| make(&folder, &n.to_string(), 50_000).0)
        .collect();
    let [one, two] = ["r1", "r2"].map(|out| receiver(1, &folder.join(out)));
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let report = report(config(&files, vec![one.addr, two.addr], 20)).await;
    let list = report.manifest.as_ref().unwrap();
    assert_eq!((list.in_use.len(), list.unreached.len()), (1, 1));
    for file in &report.sent {
        assert_eq!(file.unreached, list.unreached, "{}", file.name);
        assert_eq!(delivered(file), 1, "{}", file.name);
    }
    for it in [one, two] {
        it.stop.cancel();
        let whole = timeout(LONG, it.task).await.unwrap().unwrap().unwrap();
        assert!([0, 6].contains(&whole.files.len()), "{:?}", whole.files);
    }
}

#[tokio::test]
async fn a_list_that_cannot_be_used_is_no_success() {
    let folder = folder("tree-unlisted");
    fs::create_dir_all(folder.join("top/empty")).unwrap();
    fs::write(folder.join("top/b"), "b").unwrap();
    let it = receiver(1, &folder.join("r1"));
    // A file of the receiver is where the folder belongs.
    fs::create_dir_all(it.out.join("top")).unwrap();
    fs::write(it.out.join("top/empty"), "a file").unwrap();
    let report = report(config(&[&folder.join("top")], vec![it.addr], 100)).await;
    let list = report.manifest.as_ref().unwrap();
    assert_eq!(
        list.receivers[0].outcome,
        Outcome::Failed(Reason::Storage),
        "the sender is notified"
    );
    assert_eq!(report.sent.len(), 1);
    assert_eq!(delivered(&report.sent[0]), 1, "the file needs no list");
    let received = timeout(LONG, it.task).await.unwrap().unwrap().unwrap();
    assert_eq!((received.ended, received.listed), (Ended::All, false));
}

#[real_time(tokio)]
async fn a_file_that_changes_fails_by_name_and_the_others_arrive() {
    let folder = folder("changes");
    let (first, _) = make(&folder, "a", 1_000);
    let (grows, _) = make(&folder, "grows", 2_000_000);
    let (last, content) = make(&folder, "z", 1_000);
    let it = receiver(1, &folder.join("r1"));
    let sending = tokio::spawn(report(config(&[&first, &grows, &last], vec![it.addr], 8)));
    // The whole takes two seconds.
    sleep(Duration::from_millis(800)).await;
    fs::write(&grows, "other").unwrap();
    let report = timeout(LONG, sending).await.unwrap().unwrap();
    assert_eq!(report.withheld.len(), 1, "{report:#?}");
    assert_eq!(report.withheld[0].name, "grows");
    assert!(report.withheld[0].why.contains("it changed"), "{report:#?}");
    assert!(matches!(report.sent[1].failure, Some(Failure::Content(_))));
    let out = it.out.clone();
    let files = it.end().await;
    let told: Vec<(&str, bool)> = files
        .iter()
        .map(|file| (file.name.name.as_str(), file.path.is_some()))
        .collect();
    assert_eq!(told, [("a", true), ("grows", false), ("z", true)]);
    assert!(files[1].error.as_ref().unwrap().contains("it changed"));
    assert!(fs::read(out.join("z")).unwrap() == content);
    assert!(!out.join("grows").exists());
}

#[tokio::test]
async fn a_file_that_is_gone_at_its_turn_is_told_to_receivers() {
    let folder = folder("gone");
    let (first, _) = make(&folder, "a", 1_000);
    let (gone, _) = make(&folder, "gone", 1_000);
    let it = receiver(1, &folder.join("r1"));
    let plan = SendPlan::of(&[first.clone(), gone.clone()], TreeOptions::default()).unwrap();
    fs::remove_file(&gone).unwrap();
    let (told, _) = mpsc::channel(1);
    let config = config(&[], vec![it.addr], 100);
    let mut off = Off;
    let sending = send_plan(plan, config, CancellationToken::new(), told, &mut off);
    let report = timeout(LONG, sending).await.unwrap().unwrap();
    assert!(report.withheld[0].why.contains("removed"), "{report:#?}");
    let files = it.end().await;
    assert_eq!(files.len(), 2);
    assert!(
        files[1].error.as_ref().unwrap().contains("removed"),
        "{files:#?}"
    );
}

#[tokio::test]
async fn nothing_is_sent_if_an_input_is_missing() {
    let folder = folder("missing");
    let (good, _) = make(&folder, "good", 1_000);
    let it = receiver(1, &folder.join("r1"));
    let bad = ["nosuch", "neither"].map(|it| folder.join(it));
    let paths = [good.as_path(), &bad[0], &bad[1]];
    let (told, _) = mpsc::channel(1);
    let config = config(&paths, vec![it.addr], 100);
    let sent = send_files(config, CancellationToken::new(), told, &mut Off).await;
    let Err(NetError::Inputs(faults)) = sent else {
        panic!("{sent:?}");
    };
    assert_eq!(faults.len(), 2);
    it.stop.cancel();
    let received = timeout(LONG, it.task).await.unwrap().unwrap().unwrap();
    assert_eq!((received.files.len(), received.ended), (0, Ended::Stopped));
}

#[tokio::test]
async fn a_name_in_use_is_kept_and_one_out_of_many_files_is_not_lost() {
    let folder = folder("in-use");
    for (at, content) in [("one", "1"), ("two", "2")] {
        fs::create_dir_all(folder.join(at)).unwrap();
        fs::write(folder.join(at).join("same.txt"), content).unwrap();
    }
    let out = folder.join("r1");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("same.txt"), "mine").unwrap();
    let it = receiver(1, &out);
    let paths = [folder.join("one/same.txt"), folder.join("two/same.txt")];
    let report = report(config(&[&paths[0], &paths[1]], vec![it.addr], 100)).await;
    assert!(report.sent.iter().all(|file| delivered(file) == 1));
    let files = it.end().await;
    let there: Vec<String> = files
        .iter()
        .map(|file| fs::read_to_string(file.path.as_ref().unwrap()).unwrap())
        .collect();
    assert_eq!(there, ["1", "2"]);
    assert_eq!(fs::read_to_string(out.join("same.txt")).unwrap(), "mine");
    assert!(report.has_all(report.sent[0].receivers[0].member));
    assert_eq!(report.sent[0].receivers[0].outcome, Outcome::Delivered);
}

#[real_time(tokio)]
async fn files_that_an_earlier_life_got_are_not_missing() {
    let folder = folder("killed-tree");
    let top = folder.join("top");
    fs::create_dir_all(&top).unwrap();
    let (_, content) = make(&top, "z", 3_000_000);
    for name in ["a", "b"] {
        make(&top, name, 3_000);
    }
    mode(&top.join("z"), 0o640);
    let it = receiver(1, &folder.join("r1"));
    let to = vec![it.addr];
    let sending = tokio::spawn(report(config(&[&top], to, 10)));
    // The last file takes 2.4 s.
    let out = it.out.clone();
    while !out.join("top/b").exists() {
        sleep(Duration::from_millis(20)).await;
    }
    sleep(Duration::from_millis(500)).await;
    let listen = it.kill().await;
    // One of them goes meanwhile.
    fs::remove_file(out.join("top/a")).unwrap();
    let it = begin(receiver_at(1, &out, listen, u64::MAX));
    let received = timeout(LONG, it.task).await.unwrap().unwrap().unwrap();
    let report = sending.await.unwrap();
    assert!(report.sent.iter().all(|file| delivered(file) == 1));
    assert_eq!(
        (received.files.len(), received.before, received.missing),
        (1, 1, 1)
    );
    assert!(fs::read(out.join("top/z")).unwrap() == content);
    assert_eq!(about(&out.join("top/z")).mode() & 0o777, 0o640);
    // No list stays behind.
    only(&out, &["top"]);
}

#[real_time(tokio)]
async fn a_file_that_a_sender_does_not_list_any_more_after_a_restart_is_not_waited_for() {
    let folder = folder("gone-after-restart");
    let top = folder.join("top");
    fs::create_dir_all(&top).unwrap();
    let (_, content) = make(&top, "a", 3_000);
    let (gone, _) = make(&top, "m", 4_000_000);
    let (never, _) = make(&top, "n", 3_000);
    make(&top, "z", 3_000);
    let it = receiver(1, &folder.join("r1"));
    let stop = CancellationToken::new();
    let sending = start(config(&[&top], vec![it.addr], 8), &stop);
    let out = it.out.clone();
    while !out.join("top/a").exists() {
        sleep(Duration::from_millis(20)).await;
    }
    // In the midst of the large file, as by `kill -9`.
    sleep(Duration::from_millis(700)).await;
    sending.abort();
    for path in [gone, never] {
        fs::remove_file(path).unwrap();
    }
    let again = report(config(&[&top], vec![it.addr], 8)).await;
    assert!(again.sent.iter().all(|file| delivered(file) == 1));
    let received = timeout(Duration::from_secs(10), it.task).await;
    let received = received.expect("it does not wait").unwrap().unwrap();
    let mut told: Vec<(&str, bool)> = received
        .files
        .iter()
        .map(|file| (file.name.name.as_str(), file.path.is_some()))
        .collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            ("top/a", true),
            ("top/m", false),
            ("top/n", false),
            ("top/z", true)
        ]
    );
    assert_eq!((received.ended, received.missing), (Ended::All, 0));
    let why = received.files.iter().filter_map(|it| it.error.as_ref());
    assert!(why.into_iter().all(|it| it.contains("started again")));
    assert!(fs::read(out.join("top/a")).unwrap() == content);
}
