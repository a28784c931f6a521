//! Sessions of receivers: names, ends, restarts of the node they call.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{
    Running, complaint, decode, ends_within, folder, free_port, have_ffmpeg, layercast, make_clip,
    real_time, run, signal,
};
use crate::trace;

const SOON: Duration = Duration::from_secs(60);

/// A receiver that runs on.
fn join(args: &[&str]) -> Child {
    layercast()
        .arg("join")
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs")
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    let pipe = child.stderr.as_mut().expect("a pipe");
    pipe.read_to_string(&mut text).expect("text");
    text
}

/// Waits until the file at `path` holds a line that differs from `old`, and gives it.
fn line_of(path: &Path, old: &str) -> String {
    let until = Instant::now() + SOON;
    while Instant::now() < until {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if let Some(line) = text
            .lines()
            .next()
            .filter(|line| *line != old && text.ends_with('\n'))
        {
            return line.to_owned();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no URL in {}", path.display());
}

#[real_time]
fn receivers_have_names_of_their_own_and_a_name_is_free_when_its_receiver_has_ended() {
    if !have_ffmpeg() {
        return;
    }
    let clip = make_clip(&folder("names"), 2);
    let server = Running::start(&["serve", &clip, "--flow", "test", "--loop"]);
    let url = server.url.as_str();
    // Two without a name, side by side.
    let mut both = [(); 2].map(|()| join(&[url, "--for", "4s"]));
    for child in &mut both {
        assert_eq!(ends_within(child, SOON), Some(0), "{}", said(child));
    }
    // One that ends with an error gives its name back, as one that ends in order.
    let wrong = url.replace("/test?", "/wrong?");
    for _ in 0..2 {
        let refused = run(&["join", &wrong, "--name", "ann"]);
        let why = complaint(&refused);
        assert!(why.contains("has no flow \"wrong\""), "{why}");
        assert!(!why.contains("not connected"), "{why}");
    }
    for _ in 0..2 {
        let begun = Instant::now();
        let fine = run(&["join", url, "--name", "ann", "--for", "4s"]);
        assert_eq!(fine.status.code(), Some(0), "{}", complaint(&fine));
        assert!(
            !complaint(&fine).contains("not connected"),
            "{}",
            complaint(&fine)
        );
        assert!(begun.elapsed() < Duration::from_secs(8));
    }
    // A name that is in use.
    let mut ann = join(&[url, "--name", "ann"]);
    std::thread::sleep(Duration::from_secs(1));
    let second = run(&["join", url, "--name", "ann", "--for", "20s"]);
    assert_eq!(second.status.code(), Some(1));
    let why = complaint(&second);
    assert!(why.contains("another neighbour with the name ann"), "{why}");
    assert!(
        why.lines().last().unwrap_or_default().contains("--name"),
        "{why}"
    );
    // A receiver that was killed comes back under its name.
    ann.kill().expect("it runs");
    ann.wait().expect("it ends");
    let back = run(&["join", url, "--name", "ann", "--for", "9s"]);
    assert_eq!(back.status.code(), Some(0), "{}", complaint(&back));
    assert!(
        complaint(&back).contains("a name is free at most 3 s after"),
        "{}",
        complaint(&back)
    );
}

#[real_time]
fn a_receiver_that_is_stopped_loses_its_session_and_joins_again_by_itself() {
    // Over TCP its kernel answers for it: only a question that its process answers shows that it is stopped.
    let mut server = Running::start(&["serve", &trace("stopped"), "--loop", "--insecure"]);
    let mut ann = join(&[&server.url, "--name", "ann", "--for", "9s"]);
    server.wait_for_event("ann connected");
    std::thread::sleep(Duration::from_secs(1));
    let stopped = Instant::now();
    signal(&ann, "-STOP");
    let why = server.wait_for_event("ann disconnected");
    assert!(why.contains("said nothing for 3 s"), "{why}");
    let took = stopped.elapsed();
    assert!(took < Duration::from_secs(6), "{took:?}");
    // Not even the base layer is sent from here on.
    server.wait_for_event("ann was silent for three eras, given up");
    let took = stopped.elapsed();
    assert!(took < Duration::from_secs(9), "{took:?}");
    signal(&ann, "-CONT");
    server.wait_for_event("ann connected");
    assert_eq!(ends_within(&mut ann, SOON), Some(0), "{}", said(&mut ann));
}

#[real_time]
fn a_server_that_was_stopped_names_its_machine_and_sends_in_time_again() {
    let mut server = Running::start(&["serve", &trace("held"), "--loop"]);
    let url = server.url.clone();
    let joined = std::thread::spawn(move || run(&["join", &url, "--for", "9s", "--json"]));
    server.wait_for_event("gets BL+E1+E2");
    std::thread::sleep(Duration::from_secs(2));
    // A busy machine: the few milliseconds between have to do for all that was due before.
    for _ in 0..50 {
        signal(&server.child, "-STOP");
        std::thread::sleep(Duration::from_millis(30));
        signal(&server.child, "-CONT");
        std::thread::sleep(Duration::from_millis(3));
    }
    signal(&server.child, "-STOP");
    std::thread::sleep(Duration::from_millis(1_900));
    signal(&server.child, "-CONT");
    // All that it says in between: none of it names the encoder.
    let seconds = |text: &str| -> Option<f64> {
        let (_, rest) = text.split_once("this machine did not run serve for ")?;
        rest.split_once(" s:")?.0.parse().ok()
    };
    loop {
        let text = server.wait_for_event("");
        assert!(!text.contains("the encoder"), "{text}");
        if seconds(&text).is_some_and(|seconds| seconds >= 1.8) {
            break;
        }
    }
    let joined = joined.join().unwrap();
    assert_eq!(joined.status.code(), Some(0), "{}", complaint(&joined));
    signal(&server.child, "-INT");
    let summary = server.last_line();
    let dropped = &summary["sources"]["held"]["dropped"];
    assert_eq!(
        dropped.to_string(),
        r#"{"BL":0,"E1":0,"E2":0}"#,
        "{summary}"
    );
}

#[real_time]
fn a_server_with_another_certificate_is_found_by_its_url_in_a_file_or_named() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("renewed");
    let clip = make_clip(&folder, 2);
    let (url, got) = (folder.join("server.url"), folder.join("got.m1v"));
    let port = free_port();
    let serve = || {
        layercast()
            .args(["serve", &clip, "--flow", "test", "--loop"])
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .stdout(File::create(&url).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut server = serve();
    let first = line_of(&url, "");
    let at = format!("@{}", url.display());
    let out = got.display().to_string();
    let mut follows = join(&[&at, "--out", &out, "--for", "14s"]);
    let mut stays = join(&[&first, "--patience", "3s"]);
    std::thread::sleep(Duration::from_secs(3));
    server.kill().unwrap();
    server.wait().unwrap();
    let mut server = serve();
    line_of(&url, &first);
    assert_eq!(ends_within(&mut stays, SOON), Some(3));
    let why = said(&mut stays);
    assert_eq!(
        why.matches("started again with a new certificate").count(),
        2,
        "{why}"
    );
    assert!(why.contains("--identity FILE"), "{why}");
    assert!(why.contains("flow test was found lost"), "{why}");
    let (_, silence) = why
        .split_once("known to be away for 3.0 s (--patience); its last packet came ")
        .unwrap_or_else(|| panic!("{why}"));
    let silence: f64 = silence.split(' ').next().unwrap().parse().unwrap();
    assert!((3.0..30.0).contains(&silence), "{why}");
    assert!(!why.contains("the flow is over"), "{why}");
    assert_eq!(ends_within(&mut follows, SOON), Some(0));
    let why = said(&mut follows);
    assert!(why.contains("the file has another URL"), "{why}");
    assert_eq!(why.matches("s  joined").count(), 2, "{why}");
    let (complaints, pictures) = decode(&got);
    assert_eq!(complaints, "");
    // More than before the restart.
    assert!(pictures > 120, "{pictures}");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_file_that_never_holds_a_url_is_named_and_given_up() {
    let file = folder("nothere").join("nothere.url");
    let output = run(&["join", &format!("@{}", file.display())]);
    assert_eq!(output.status.code(), Some(1));
    let why = complaint(&output);
    assert!(
        why.matches("nothere.url does not exist; giving up in")
            .count()
            >= 2,
        "{why}"
    );
    assert!(why.contains("check the name"), "{why}");
}

#[test]
fn a_port_in_use_is_told_before_a_live_input_is_measured() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let begun = Instant::now();
    let output = run(&["serve", "udp://127.0.0.1:0", "--listen", &address]);
    assert_eq!(output.status.code(), Some(1));
    let why = complaint(&output);
    assert!(
        why.contains("is in use") && why.contains("--listen"),
        "{why}"
    );
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[real_time]
fn a_receiver_behind_a_switch_says_at_once_that_the_source_is_gone() {
    let server = Running::start(&["serve", &trace("gone"), "--flow", "gone", "--loop"]);
    let switch = Running::start(&["switch", "--upstream", &server.url]);
    let mut child = layercast()
        .args(["join", &switch.url, "--json", "--patience", "60s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut texts = lines.map_while(Result::ok).filter_map(|line| {
        let line: Value = serde_json::from_str(&line).expect("JSON");
        line["text"].as_str().map(str::to_owned)
    });
    let mut wait_for = |part: &str| texts.find(|text| text.contains(part));
    assert!(wait_for("joined").is_some());
    drop(server);
    let gone = Instant::now();
    let said = wait_for("the flow is gone: ").expect("it is reported");
    assert!(said.contains("--patience"), "{said}");
    assert!(
        gone.elapsed() < Duration::from_secs(10),
        "{:?}",
        gone.elapsed()
    );
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[real_time]
fn a_receiver_hears_to_which_group_a_switch_sends_its_media() {
    let server = Running::start(&["serve", &trace("group"), "--flow", "group", "--loop"]);
    let group = "239.255.77.21:47821";
    let list = format!("{group}=ann,bob");
    let lists = ["--upstream", &server.url, "--multicast", &list];
    let switch = Running::start(&[&["switch", "--name", "hall"][..], &lists].concat());
    for more in [&[][..], &["--multicast", "239.255.77.22:47822"]] {
        let begun = Instant::now();
        let args = ["join", &switch.url, "--name", "ann", "--for", "30s"];
        let output = run(&[&args[..], more].concat());
        assert_eq!(output.status.code(), Some(2));
        let why = complaint(&output);
        let said = format!("hall sends the media of ann to {group}: join with --multicast {group}");
        assert!(why.contains(&said), "{why}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    let args = [
        "join",
        &switch.url,
        "--name",
        "cat",
        "--for",
        "6s",
        "--multicast",
        group,
    ];
    let output = run(&args);
    let why = complaint(&output);
    assert_eq!(output.status.code(), Some(0), "{why}");
    assert!(
        why.contains("cat is not in the list of the group") && why.contains("unicast"),
        "{why}"
    );
    let ann = [
        "join",
        &switch.url,
        "--name",
        "ann",
        "--for",
        "6s",
        "--multicast",
        group,
    ];
    let output = run(&ann);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    assert!(!complaint(&output).contains("not in the list"));
}
