//! `layercast token`, and a server that asks for one.

#[path = "all/common/mod.rs"]
mod common;

use std::path::Path;

use common::{Running, complaint, decode, folder, have_ffmpeg, make_clip, real_time, run};

/// A server of a flow for those with a token, and the file of its identity.
fn closed(folder: &Path, more: &[&str]) -> (Running, String) {
    let clip = make_clip(folder, 2);
    let identity = folder.join("server.pem").to_str().unwrap().to_owned();
    let args = ["serve", &clip, "--flow", "test", "--identity", &identity];
    let server = Running::start(&[&args[..], &["--require-tokens"], more].concat());
    (server, identity)
}

#[real_time]
fn a_token_opens_what_is_closed_without_one() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("token");
    let (server, identity) = closed(&folder, &["--start-when-joined", "1"]);
    assert!(server.url.contains("&src="), "{}", server.url);

    let refused = run(&["join", &server.url]);
    assert_eq!(refused.status.code(), Some(1));
    let why = complaint(&refused);
    assert!(why.contains("takes a valid token"), "{why}");

    let url = |arguments: &[&str]| {
        let token = [
            "token",
            "--identity",
            &identity,
            "--flow",
            "test",
            "--url",
            &server.url,
        ];
        let output = run(&[&token, arguments].concat());
        assert!(output.status.success(), "{}", complaint(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let for_bob = run(&["join", &url(&["--member", "bob"]), "--name", "eve"]);
    assert_eq!(for_bob.status.code(), Some(1));
    assert!(complaint(&for_bob).contains("takes a valid token"));

    let got = folder.join("got.m1v");
    let out = got.to_str().unwrap();
    let ann = url(&["--member", "ann", "--expires", "1h"]);
    let joined = run(&["join", &ann, "--name", "ann", "--out", out]);
    assert!(joined.status.success(), "{}", complaint(&joined));
    assert!(decode(&got).1 > 24);
}

#[real_time]
fn a_token_that_expires_ends_the_join_with_a_clear_line() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("expires");
    let (server, identity) = closed(&folder, &["--loop"]);
    let args = [
        "token",
        "--identity",
        &identity,
        "--flow",
        "test",
        "--expires",
        "4s",
        "--url",
        &server.url,
    ];
    let url = run(&args);
    assert!(url.status.success(), "{}", complaint(&url));
    let url = String::from_utf8(url.stdout).unwrap();
    let got = folder.join("got.m1v");
    for written in [true, false] {
        let _ = std::fs::remove_file(&got);
        let joined = run(&["join", url.trim(), "--out", got.to_str().unwrap()]);
        assert_eq!(joined.status.code(), Some(1));
        let why = complaint(&joined);
        assert!(why.contains("the token for the flow has expired"), "{why}");
        assert!(why.contains("layercast token"), "{why}");
        // What came before is there.
        let bytes = std::fs::metadata(&got).map_or(0, |it| it.len());
        assert_eq!(bytes > 0, written);
    }
}

#[test]
fn a_token_needs_an_identity_that_is_there() {
    let missing = folder("no-token").join("missing.pem");
    let missing = missing.to_str().unwrap();
    let output = run(&["token", "--identity", missing, "--flow", "test"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint(&output).contains("missing.pem"));
    let output = run(&["serve", "clip.m1v", "--require-tokens"]);
    assert_ne!(output.status.code(), Some(0));
}
