//! `layercast token`, and a server that asks for one.

mod common;

use common::{Running, complaint, decode, folder, have_ffmpeg, make_clip, run};

#[test]
fn a_token_opens_what_is_closed_without_one() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("token");
    let clip = make_clip(&folder, 2);
    let identity = folder.join("server.pem");
    let identity = identity.to_str().unwrap();
    let args = [
        "serve",
        &clip,
        "--flow",
        "test",
        "--identity",
        identity,
        "--require-tokens",
        "--start-when-joined",
        "1",
    ];
    let server = Running::start(&args);
    assert!(server.url.contains("&src="), "{}", server.url);

    let refused = run(&["join", &server.url]);
    assert_eq!(refused.status.code(), Some(1));
    let why = complaint(&refused);
    assert!(why.contains("takes a valid token"), "{why}");

    let url = |arguments: &[&str]| {
        let token = [
            "token",
            "--identity",
            identity,
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
