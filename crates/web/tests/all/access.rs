//! Access to the HTTP server.

use crate::site::{Site, TOKEN};

/// The status of an answer.
fn status(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn the_page_is_for_all_and_everything_else_for_those_who_know_the_token() {
    let site = Site::of(Vec::new(), 2).await;
    let host = format!("Host: {}\r\n", site.address);
    let (head, body) = site.ask("GET /", &host).await;
    assert_eq!(status(&head), "200");
    assert!(body.contains("<title>Layercast</title>"));
    let head = head.to_ascii_lowercase();
    assert!(
        head.contains("content-security-policy: default-src 'none'; script-src 'self'"),
        "{head}"
    );
    assert!(
        head.contains("x-content-type-options: nosniff")
            && head.contains("referrer-policy: no-referrer")
    );
    for path in [
        "/app.js",
        "/player.js",
        "/counters.js",
        "/dashboard.js",
        "/style.css",
        "/vendor/uplot.js",
    ] {
        assert_eq!(
            status(&site.ask(&format!("GET {path}"), &host).await.0),
            "200",
            "{path}"
        );
    }
    for path in [
        "/api/flows",
        "/api/board",
        "/api/flows?ticket=",
        "/api/board?ticket=0123456789abcdef",
    ] {
        assert_eq!(
            status(&site.ask(&format!("GET {path}"), &host).await.0),
            "401",
            "{path}"
        );
    }
    for path in ["/../Cargo.toml", "/api", "/vendor/", "/report"] {
        let (head, _) = site.ask(&format!("GET {path}"), &host).await;
        assert!(["404", "405"].contains(&status(&head)), "{path}: {head}");
    }
    let wrong = format!("{host}Authorization: Bearer {TOKEN}x\r\nContent-Length: 0\r\n");
    assert_eq!(status(&site.ask("POST /api/ticket", &wrong).await.0), "401");
    let ticket = site.ticket().await;
    let (head, body) = site
        .ask(&format!("GET /api/flows?ticket={ticket}"), &host)
        .await;
    assert_eq!((status(&head), body.as_str()), ("200", "[]"));
    // It is used up.
    assert_eq!(
        status(
            &site
                .ask(&format!("GET /api/flows?ticket={ticket}"), &host)
                .await
                .0
        ),
        "401"
    );
    assert!(site.url.ends_with(&format!("/#token={TOKEN}")));
}

#[tokio::test]
async fn a_request_that_is_refused_is_told_why_in_words() {
    let site = Site::of(Vec::new(), 1).await;
    let host = format!("Host: {}\r\n", site.address);
    let socket = format!(
        "{host}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    );
    for (path, head, code, says) in [
        (
            "/api/watch?flow=x&ticket=",
            &host,
            "400",
            "flow is the number of a flow",
        ),
        (
            "/api/watch?flow=-1&ticket=",
            &host,
            "400",
            "flow is the number of a flow",
        ),
        (
            "/api/watch?level=e7&ticket=",
            &host,
            "400",
            "level is auto, base, e1 or e2",
        ),
        ("/api/watch?form=avi&ticket=", &host, "400", "form is mp4"),
        ("/api/watch?flow=9&ticket=", &host, "404", "no such flow"),
        (
            "/api/watch?flow=1&flow=2&ticket=",
            &host,
            "400",
            "each at most once",
        ),
        (
            "/api/watch?flow=1&flow=2&ticket=",
            &socket,
            "400",
            "each at most once",
        ),
        (
            "/api/flows?flow=1&flow=2&ticket=",
            &host,
            "400",
            "each at most once",
        ),
        (
            "/api/board?form=1&form=2&ticket=",
            &host,
            "400",
            "each at most once",
        ),
        (
            "/api/board?flow=x&ticket=",
            &host,
            "401",
            "used up or too old",
        ),
    ] {
        let ticket = match code {
            "401" => "0".repeat(32),
            _ => site.ticket().await,
        };
        let (got, body) = site.ask(&format!("GET {path}{ticket}"), head).await;
        assert_eq!(status(&got), code, "{path}");
        assert!(
            body.contains(says) && !body.contains("deserialize"),
            "{path}: {body}"
        );
    }
    let mut boards = Vec::new();
    for _ in 0..4 {
        boards.push(site.hold_board().await);
    }
    let ticket = site.ticket().await;
    let (got, body) = site
        .ask(&format!("GET /api/board?ticket={ticket}"), &host)
        .await;
    assert_eq!(status(&got), "503");
    assert!(
        body.contains("all places for dashboards are taken, 4 in all"),
        "{body}"
    );
}

#[tokio::test]
async fn other_names_and_other_pages_are_refused() {
    let site = Site::of(Vec::new(), 2).await;
    for host in ["evil.example", "evil.example:8400", "127.0.0.1"] {
        let (head, body) = site.ask("GET /", &format!("Host: {host}\r\n")).await;
        assert_eq!(status(&head), "421", "{host}");
        assert!(body.contains("--host NAME"), "{body}");
    }
    let head = format!(
        "Host: {}\r\nOrigin: http://evil.example\r\nAuthorization: Bearer {TOKEN}\r\n",
        site.address
    );
    assert_eq!(status(&site.ask("POST /api/ticket", &head).await.0), "403");
    let own = format!(
        "Host: {0}\r\nOrigin: http://{0}\r\nAuthorization: Bearer {TOKEN}\r\n",
        site.address
    );
    assert_eq!(status(&site.ask("POST /api/ticket", &own).await.0), "200");
}
