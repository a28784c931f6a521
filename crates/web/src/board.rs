//! What the dashboard shows.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::watch;

/// What nodes say, for dashboards. A clone is the same board.
#[derive(Clone, Debug)]
pub struct Board(Arc<watch::Sender<Arc<str>>>);

impl Default for Board {
    fn default() -> Board {
        Board(Arc::new(watch::Sender::new("{\"nodes\":[]}".into())))
    }
}

impl Board {
    /// Shows these nodes: for each its name, and what `layercast stats --json` prints of it, or why it does not answer.
    pub fn show<'a>(&self, nodes: impl IntoIterator<Item = (&'a str, Result<Value, String>)>) {
        let nodes = nodes.into_iter().map(|(name, stats)| match stats {
            Ok(stats) => json!({ "name": name, "stats": stats }),
            Err(problem) => json!({ "name": name, "problem": problem }),
        });
        let nodes: Vec<Value> = nodes.collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let time_ms = now.map_or(0, |it| it.as_millis() as u64);
        let board = json!({ "time_ms": time_ms, "nodes": nodes });
        self.0.send_replace(board.to_string().into());
    }

    /// Whether a dashboard is open.
    pub fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Arc<str>> {
        self.0.subscribe()
    }
}
