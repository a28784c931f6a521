//! `layercast xtpd` as a process, with clients in this one.

use std::time::Duration;

use bytes::Bytes;
use layercast_net::{XtpAssociation, XtpCallError, XtpHost, XtpListener, XtpPlace};
use layercast_transport::xtp::SendOptions;
use layercast_wire::XtpService;

use crate::common::{Running, complaint, folder, json, run, signal};

const PORT: u16 = 7_000;

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, what).await.expect("in time")
}

async fn client(path: &str) -> XtpHost {
    let place: XtpPlace = format!("xtp+daemon://{path}").parse().unwrap();
    in_time(XtpHost::open(&place)).await.unwrap()
}

/// Two ends of an association by the same daemon.
async fn pair(near: &XtpHost, far: &XtpHost) -> (XtpAssociation, XtpAssociation, XtpListener) {
    let listener = far.register(XtpService::STREAM).bind(PORT).listen(4);
    let listener = in_time(listener).await.unwrap();
    let stream = near.register(XtpService::STREAM);
    let it = stream.connect(far.local_addr(), PORT).unwrap();
    in_time(it.connected()).await.unwrap();
    (it, in_time(listener.accept()).await.unwrap(), listener)
}

#[tokio::test]
async fn a_daemon_serves_tells_and_ends_in_order() {
    let path = folder("xtpd").join("xtpd");
    let path = path.to_str().unwrap();
    let mut daemon = Running::start(&["xtpd", path]);
    let (near, far) = (client(path).await, client(path).await);
    assert_eq!(near.local_addr().to_string(), daemon.address);
    daemon.wait_for_event("client 2, process");
    let (it, there, _listener) = pair(&near, &far).await;
    let text = Bytes::from(vec![7; 100_000]);
    in_time(it.send(text.clone(), &SendOptions::MESSAGE))
        .await
        .unwrap();
    // It has all of it.
    assert!(it.info().await.is_some());

    let stats = json(&run(&["stats", &format!("xtp+daemon://{path}"), "--json"]));
    assert_eq!(stats["clients"][0]["process"], std::process::id());
    assert_eq!(stats["clients"][1]["ports"][0], PORT);
    assert_eq!(stats["endpoint"]["passive_opens"], 1);
    let words = run(&["stats", &format!("xtp+daemon://{path}")]);
    assert!(String::from_utf8_lossy(&words.stdout).contains("1 taken, 0 refused"));
    let second = run(&["xtpd", path, "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    let said = complaint(&second);
    assert!(said.contains("another daemon serves this path"), "{said}");

    signal(&daemon.child, "-INT");
    let mut got = 0;
    let why = loop {
        match in_time(there.receive(usize::MAX)).await {
            Ok(Some(chunk)) => got += chunk.data.len(),
            Ok(None) => break None,
            Err(why) => break Some(why),
        }
    };
    // Both ends are served by the one that ends: each hears of that.
    assert!(got <= text.len());
    assert!(matches!(why, Some(XtpCallError::Parted(_))), "{why:?}");
    let summary = daemon.last_line();
    assert_eq!(
        (&summary["report"], &summary["served"]),
        (&"summary".into(), &4.into())
    );
    assert_eq!(daemon.child.wait().unwrap().code(), Some(130));
    assert!(!std::path::Path::new(path).exists());
}

#[tokio::test]
async fn a_daemon_that_was_killed_is_missed_and_replaced() {
    let path = folder("xtpd-killed").join("xtpd");
    let path = path.to_str().unwrap();
    let mut killed = Running::start(&["xtpd", path]);
    let (near, far) = (client(path).await, client(path).await);
    let (it, there, _listener) = pair(&near, &far).await;
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert!(in_time(there.receive(1)).await.is_err());
    assert!(in_time(it.settled()).await.is_err());
    let place: XtpPlace = format!("xtp+daemon://{path}").parse().unwrap();
    assert!(in_time(XtpHost::open(&place)).await.is_err());
    let gone = run(&["stats", &format!("xtp+daemon://{path}")]);
    assert_eq!(gone.status.code(), Some(1));
    // Its socket is still there.
    let _next = Running::start(&["xtpd", path]);
    let (near, far) = (client(path).await, client(path).await);
    let (it, there, _listener) = pair(&near, &far).await;
    in_time(it.send(Bytes::from_static(b"again"), &SendOptions::MESSAGE))
        .await
        .unwrap();
    let chunk = in_time(there.receive(99)).await.unwrap().unwrap();
    assert_eq!(chunk.data.len(), 5);
}
