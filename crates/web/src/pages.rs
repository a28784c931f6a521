//! The files of the page, which are in the program.

use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($($path:literal, $file:literal, $kind:expr;)*) => {
        [$(($path, include_bytes!(concat!("../assets/", $file)) as &[u8], $kind)),*]
    };
}

/// Path, content and type of each file.
static FILES: &[(&str, &[u8], &str)] = &files![
    "/", "index.html", HTML;
    "/style.css", "style.css", STYLE;
    "/icon.svg", "icon.svg", SVG;
    "/app.js", "app.js", SCRIPT;
    "/session.js", "session.js", SCRIPT;
    "/counters.js", "counters.js", SCRIPT;
    "/dashboard.js", "dashboard.js", SCRIPT;
    "/topology.js", "topology.js", SCRIPT;
    "/charts.js", "charts.js", SCRIPT;
    "/player.js", "player.js", SCRIPT;
    "/codecs.js", "codecs.js", SCRIPT;
    "/mse.js", "mse.js", SCRIPT;
    "/pipes.js", "pipes.js", SCRIPT;
    "/sound.js", "sound.js", SCRIPT;
    "/vendor/uplot.js", "vendor/uPlot.esm.js", SCRIPT;
    "/vendor/uplot.css", "vendor/uPlot.min.css", STYLE;
    "/vendor/LICENSE", "vendor/LICENSE", TEXT;
];

/// Answers with a file of the page.
pub async fn page(uri: Uri) -> Response {
    match FILES.iter().find(|(path, ..)| *path == uri.path()) {
        Some((_, content, kind)) => ([(CONTENT_TYPE, *kind)], *content).into_response(),
        None => (StatusCode::NOT_FOUND, "there is no such page\n").into_response(),
    }
}
