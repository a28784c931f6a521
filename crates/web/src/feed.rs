//! The receivers whose streams browsers see.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use layercast::{Join, LeaveReason, Level};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::hub::Hub;
use crate::writer::HubWriter;

/// Pause before a flow that ended, or that could not be joined, is joined again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a receiver of a level that viewers chose stays when the last of them is gone.
const LINGER: Duration = Duration::from_secs(5);
/// How long the end waits for a node that does not answer the farewell of a receiver.
const FAREWELL: Duration = Duration::from_secs(1);

/// A flow that viewers can watch.
#[derive(Clone, Debug)]
pub struct Flow {
    /// What viewers see as its name.
    pub name: String,
    /// Its URL, as a source or a switch prints it.
    pub url: String,
}

/// The level that a viewer wants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wanted {
    /// The highest that the path carries.
    Auto,
    /// At most this one.
    UpTo(Level),
}

impl Wanted {
    /// Reads what a page asks for: `auto`, `base`, `e1` or `e2`.
    pub fn parse(text: &str) -> Option<Wanted> {
        Some(match text {
            "auto" => Wanted::Auto,
            "base" => Wanted::UpTo(Level::BASE),
            "e1" => Wanted::UpTo(Level::E1),
            "e2" => Wanted::UpTo(Level::FULL),
            _ => return None,
        })
    }

    fn level(self) -> Level {
        match self {
            Wanted::Auto => Level::FULL,
            Wanted::UpTo(level) => level,
        }
    }
}

/// A receiver of a flow at a level, and its viewers.
#[derive(Debug)]
pub struct Feed {
    pub hub: Arc<Hub>,
    /// Its name among the members of the flow.
    pub member: String,
    /// Ends it.
    over: CancellationToken,
    receiving: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Feed {
    /// When a receiver whose end was asked for has left its flow.
    async fn left(&self) {
        let receiving = self.receiving.lock();
        let receiving = receiving.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(receiving) = receiving {
            // A task that failed has left, too.
            let _ = receiving.await;
        }
    }
}

/// The receivers of all flows: the one of each flow at the highest level runs always, so that a viewer sees a picture immediately; others run while they
/// have viewers.
#[derive(Debug)]
pub struct Feeds {
    flows: Vec<Flow>,
    member: String,
    running: Mutex<BTreeMap<(usize, Wanted), Arc<Feed>>>,
}

impl Feeds {
    /// Receivers of `flows`, named `member` with a number.
    pub fn new(flows: Vec<Flow>, member: String) -> Arc<Feeds> {
        Arc::new(Feeds {
            flows,
            member,
            running: Mutex::default(),
        })
    }

    /// The flows that viewers can watch.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Starts the receivers that run always.
    pub fn start(self: &Arc<Feeds>) {
        for index in 0..self.flows.len() {
            self.get(index, Wanted::Auto);
        }
    }

    /// The receiver of a flow at a level, which is started if it is not there; `None` if there is no such flow.
    pub fn get(self: &Arc<Feeds>, flow: usize, wanted: Wanted) -> Option<Arc<Feed>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = running.get(&(flow, wanted)) {
            return Some(Arc::clone(feed));
        }
        let url = self.flows.get(flow)?.url.clone();
        let hub = Arc::<Hub>::default();
        let level = match wanted {
            Wanted::Auto => String::new(),
            Wanted::UpTo(level) => format!("-{}", level.get()),
        };
        let member = format!("{}-{flow}{level}", self.member);
        let over = CancellationToken::new();
        let what = (url, member.clone(), wanted.level());
        let receiving = tokio::spawn(receive(what, Arc::clone(&hub), over.clone()));
        let feed = Arc::new(Feed {
            hub,
            member,
            over,
            receiving: Mutex::new(Some(AbortOnDropHandle::new(receiving))),
        });
        running.insert((flow, wanted), Arc::clone(&feed));
        if wanted != Wanted::Auto {
            tokio::spawn(Arc::clone(self).end_unwatched(flow, wanted));
        }
        Some(feed)
    }

    /// Ends a receiver that has no viewers any more.
    async fn end_unwatched(self: Arc<Feeds>, flow: usize, wanted: Wanted) {
        let feed = loop {
            sleep(LINGER).await;
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            match running.get(&(flow, wanted)) {
                Some(feed) if feed.hub.viewers() > 0 => {}
                _ => break running.remove(&(flow, wanted)),
            }
        };
        leave(feed).await;
    }

    /// All receivers leave their flows.
    pub async fn end(&self) {
        let running =
            std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        leave(running.into_values()).await;
    }
}

/// Receivers leave their flows: their nodes need not find out by their silence.
async fn leave(feeds: impl IntoIterator<Item = Arc<Feed>>) {
    let feeds: Vec<Arc<Feed>> = feeds.into_iter().collect();
    for feed in &feeds {
        feed.over.cancel();
    }
    let left = async {
        for feed in &feeds {
            feed.left().await;
        }
    };
    let _ = timeout(FAREWELL, left).await;
}

/// Joins a flow, again and again, until it is over.
async fn receive(
    (url, member, level): (String, String, Level),
    hub: Arc<Hub>,
    over: CancellationToken,
) {
    hub.problem(Some("joining the flow"));
    while !over.is_cancelled() {
        let join = Join::new(&url).name(&member).level(level);
        let joining = join.write_to(HubWriter::new(Arc::clone(&hub)));
        match over.run_until_cancelled(joining).await {
            Some(Ok((_control, management))) => {
                let watching = async { while management.signal().await.is_some() {} };
                if over.run_until_cancelled(watching).await.is_none() {
                    let _ = management.leave(LeaveReason::User).await;
                }
                hub.problem(Some("the flow is over; waiting for it to begin again"));
            }
            Some(Err(error)) => hub.problem(Some(&error.to_string())),
            None => return,
        }
        over.run_until_cancelled(sleep(AGAIN)).await;
    }
}
