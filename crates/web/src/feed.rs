//! The receivers whose streams browsers see.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use layercast::{Join, LeaveReason, Level, QosEvent, QosSignal};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::hub::{Hub, State};
use crate::writer::HubWriter;

/// Pause before a flow that ended, or that could not be joined, is joined again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a receiver of a level that viewers chose stays when the last of them is gone.
const LINGER: Duration = Duration::from_secs(5);
/// How long the end waits for a node that does not answer the farewell of a receiver.
const FAREWELL: Duration = Duration::from_secs(1);

/// The problem of a flow that has not come yet.
const JOINING: &str = "joining the flow";

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

    /// What keeps each flow from coming, as it changes.
    pub fn troubles(self: &Arc<Feeds>) -> Vec<Trouble> {
        let flows = self.flows.iter().enumerate();
        flows
            .filter_map(|(index, flow)| {
                Some(Trouble {
                    flow: flow.name.clone(),
                    state: self.get(index, Wanted::Auto)?.hub.state(),
                    told: None,
                })
            })
            .collect()
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

/// What keeps a flow from coming, as it changes.
#[derive(Debug)]
pub struct Trouble {
    flow: String,
    state: watch::Receiver<State>,
    told: Option<Arc<str>>,
}

impl Trouble {
    /// What viewers see as the name of the flow.
    pub fn flow(&self) -> &str {
        &self.flow
    }

    /// What keeps the flow from coming from now on, `Some(None)` if it comes again; `None` if its receiver has ended.
    pub async fn next(&mut self) -> Option<Option<Arc<str>>> {
        loop {
            self.state.changed().await.ok()?;
            let problem = self.state.borrow_and_update().problem.clone();
            let problem = problem.filter(|it| &**it != JOINING);
            if problem != self.told {
                self.told.clone_from(&problem);
                return Some(problem);
            }
        }
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
    hub.problem(Some(JOINING));
    while !over.is_cancelled() {
        let join = Join::new(&url).name(&member).level(level);
        let joining = join.write_to(HubWriter::new(Arc::clone(&hub)));
        match over.run_until_cancelled(joining).await {
            Some(Ok((_control, management))) => {
                hub.back();
                let mut gone = None;
                let watching = async {
                    while let Some(signal) = management.signal().await {
                        tell_loss(&hub, &signal, &mut gone);
                    }
                };
                if over.run_until_cancelled(watching).await.is_none() {
                    let _ = management.leave(LeaveReason::User).await;
                }
                hub.lost("the flow is over; waiting for it to begin again");
            }
            Some(Err(error)) => hub.problem(Some(&error.to_string())),
            None => return,
        }
        over.run_until_cancelled(sleep(AGAIN)).await;
    }
}

/// Tells viewers that the flow is lost, and why; `gone` is what the network said of it.
fn tell_loss(hub: &Hub, signal: &QosSignal, gone: &mut Option<String>) {
    let QosSignal::Event(event) = signal else {
        return;
    };
    match event {
        QosEvent::Released { reason } => {
            let text = format!("the flow is gone: {reason}; waiting for it to come back");
            hub.lost(&text);
            *gone = Some(text);
        }
        // What a node said before it went tells more than that it went.
        QosEvent::NodeLost { reason } => hub.lost(&match gone {
            Some(gone) => format!("{gone}; not connected: {reason}"),
            None => format!("not connected: {reason}; calling again"),
        }),
        QosEvent::Rejoined => {
            *gone = None;
            hub.back();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_read_why_a_flow_is_lost_until_it_is_back() {
        let hub = Hub::default();
        let state = hub.state();
        let mut gone = None;
        let mut after = |event| {
            tell_loss(&hub, &QosSignal::Event(event), &mut gone);
            // A key picture is played.
            hub.problem(None);
            state.borrow().problem.as_deref().map(str::to_owned)
        };
        let lost = |reason: &str| QosEvent::NodeLost {
            reason: reason.to_owned(),
        };
        assert_eq!(
            after(lost("it ended the session")).as_deref(),
            Some("not connected: it ended the session; calling again")
        );
        assert_eq!(after(QosEvent::Rejoined), None);
        let stopped = QosEvent::Released {
            reason: "node site, on the way to its source, was stopped".to_owned(),
        };
        let said = "the flow is gone: node site, on the way to its source, was stopped; waiting for it to come back";
        assert_eq!(after(stopped).as_deref(), Some(said));
        assert_eq!(
            after(lost("no answer")),
            Some(format!("{said}; not connected: no answer"))
        );
        assert_eq!(after(QosEvent::Rejoined), None);
    }

    #[tokio::test]
    async fn troubles_are_told_once_and_without_the_first_join() {
        let hub = Hub::default();
        let mut trouble = Trouble {
            flow: "film".to_owned(),
            state: hub.state(),
            told: None,
        };
        hub.problem(Some(JOINING));
        hub.problem(None);
        hub.lost("the node was stopped");
        assert_eq!(
            trouble.next().await,
            Some(Some("the node was stopped".into()))
        );
        hub.back();
        hub.problem(None);
        assert_eq!(trouble.next().await, Some(None));
        drop(hub);
        assert_eq!(trouble.next().await, None);
    }
}
