use std::fmt;
use std::sync::Arc;

use layercast_core::{Composition, FlowSpec, FrameRate, Level, QosPolicy, Span, Status};
use layercast_media::Clip;
use layercast_mets::{AppFrame, Shaping, SourceConfig};
use layercast_net::{
    Clock, FlowState, Frames, LiveFlow, LocalSource, NetError, NodeCommand, check_name, clock_name,
    flow_epoch, random_seed, source_protection, wall_clock,
};
use layercast_protect::{Claims, JoinUrl, Seed, Signer, Token};
use layercast_wire::{Carriage, FlowInfo, Member};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;

use crate::control::{GroupControl, ask_for};
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::inbox::Inbox;
use crate::learn::{Grower, Learner};
use crate::management::ManagementSocket;
use crate::server::{Running, Watched};
use crate::upcall::Upcalls;

/// Frames submitted and not yet taken; [`OpenGroup::send`] waits at this number.
const AHEAD: usize = 8;
/// Delay bound of a group that names none.
const DELAY_MAX: Span = Span::from_ms(500);

/// A group as it is to be opened: what `openGroup` takes (specs/mets.md 2.2). Only the name is needed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> layercast::Result<()> {
/// use layercast::{Group, Server, Span};
///
/// let server = Server::bind("127.0.0.1:0").await?;
/// let film = Group::new("film").frame_rate(25, 1).delay_max(Span::from_ms(200));
/// let film = server.open_group(film).await?;
/// assert!(film.url().contains("/film"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    pub(crate) name: String,
    spec: Option<FlowSpec>,
    composition: Composition,
    frame_rate: FrameRate,
    delay_max: Span,
    policy: QosPolicy,
    core: Option<String>,
    wait_for: u32,
    registered: bool,
    seal: Seal,
}

/// Whether media are sealed from the source to the members, and which members are permitted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Seal {
    No,
    Anybody,
    Tokens,
}

/// An open group: the source's media socket, and the way to its control and management sockets.
///
/// When it is dropped without [`close`](OpenGroup::close), what was sent still leaves, and then the
/// flow ends.
pub struct OpenGroup {
    pub(crate) shared: Arc<Shared>,
    /// What `send` does: learn, or hand over.
    sender: Mutex<Sender>,
}

enum Sender {
    /// Nothing is known yet of what the flow needs.
    Learning(Box<(Group, Learner)>),
    /// The flow starts, and what was kept is handed over; in a task, so that a sender that gives up
    /// waiting spoils nothing.
    Opening(JoinHandle<Result<Open>>),
    Open(Open),
    Closed,
}

/// An advertised flow.
struct Open {
    frames: mpsc::Sender<AppFrame>,
    limit: Limit,
}

/// The largest frame that is accepted.
enum Limit {
    /// What the program has said.
    Fixed(u32),
    /// The flow was learned and follows its frames.
    Follows(Box<Grower>),
}

/// What the sockets of a group share.
pub(crate) struct Shared {
    pub name: String,
    pub commands: mpsc::Sender<NodeCommand>,
    pub upcalls: Arc<Upcalls>,
    pub control: Arc<Inbox<(Member, bytes::Bytes)>>,
    members: watch::Sender<u32>,
    /// The flow is over.
    over: watch::Sender<bool>,
    running: Arc<Running>,
    /// What the source signs with, if it seals the media.
    identity: Option<Seed>,
}

impl Group {
    /// A group of that name at 24 frames a second. What it needs is learned from the first group of
    /// pictures and renegotiated when the frames take more, unless [`spec`](Group::spec) says.
    pub fn new(name: impl Into<String>) -> Group {
        Group {
            name: name.into(),
            spec: None,
            composition: Composition::Additive,
            frame_rate: FrameRate { num: 24, den: 1 },
            delay_max: DELAY_MAX,
            policy: QosPolicy::default(),
            core: None,
            wait_for: 0,
            registered: true,
            seal: Seal::No,
        }
    }

    /// A group for the frames of `clip`.
    pub fn of_clip(name: impl Into<String>, clip: &Clip) -> Group {
        Group::new(name).spec(clip.flow_spec())
    }

    /// Frames per second, all layers together, as a fraction: 30000 and 1001 for NTSC.
    pub fn frame_rate(mut self, num: u32, den: u32) -> Group {
        self.frame_rate = FrameRate { num, den };
        self
    }

    /// Plays every frame this long after it was sent, 500 ms by default; zero: the playout delay follows the
    /// observed delays.
    pub fn delay_max(mut self, delay: Span) -> Group {
        self.delay_max = delay;
        self
    }

    /// What the layers are to each other, where that is learned with the rest. Frames of alternative layers come with
    /// those of one time together, the base layer first; [`frame_rate`](Group::frame_rate) counts all of them.
    pub fn composition(mut self, composition: Composition) -> Group {
        self.composition = composition;
        self
    }

    /// What the flow needs, instead of learning it.
    pub fn spec(mut self, spec: FlowSpec) -> Group {
        self.spec = Some(spec);
        self
    }

    /// What to do when that cannot be had, or when there is more.
    pub fn policy(mut self, policy: QosPolicy) -> Group {
        self.policy = policy;
        self
    }

    /// The core switch (specs/mets.md 2.10), instead of the one the network chooses.
    pub fn core(mut self, switch: impl Into<String>) -> Group {
        self.core = Some(switch.into());
        self
    }

    /// Keeps the first frame until this number of members has joined.
    pub fn wait_for(mut self, members: u32) -> Group {
        self.wait_for = members;
        self
    }

    /// Seals the media from here to the members: nodes between can neither read nor change them
    /// (docs/src/explanation/security.md). Filters in nodes leave such a flow alone.
    pub fn sealed(mut self) -> Group {
        self.seal = self.seal.max(Seal::Anybody);
        self
    }

    /// Takes only members that show a token, such as the URLs of [`OpenGroup::url_for`] have; seals
    /// the media.
    pub fn require_tokens(mut self) -> Group {
        self.seal = Seal::Tokens;
        self
    }

    /// `false`: no frame is taken before
    /// [`ManagementSocket::register_group`](crate::ManagementSocket::register_group).
    pub fn registered(mut self, registered: bool) -> Group {
        self.registered = registered;
        self
    }

    /// The source of the flow on the node of `running`, with its frames.
    fn source(
        self,
        spec: FlowSpec,
        frames: Frames,
        running: &Running,
        identity: Option<Seed>,
    ) -> LocalSource {
        let id = FlowInfo::id_of(&running.name, &[], &self.name);
        let mut spec = FlowSpec {
            flow_id: id,
            ..spec
        };
        if spec.delay_max_ms == 0 {
            spec.delay_max_ms = u32::try_from(self.delay_max.as_ms()).unwrap_or(u32::MAX);
        }
        let mut policy = self.policy;
        if self.spec.is_some() {
            policy.max_level = policy.max_level.min(spec.top_level());
        }
        let info = FlowInfo {
            spec,
            policy,
            clock: clock_name(),
            core: self.core,
            epoch: flow_epoch(),
            ..FlowInfo::new(id, &self.name, &running.name)
        };
        let mut config = SourceConfig::new(&running.name, running.id, info, Carriage::Datagrams);
        config.start = Clock::get().now();
        config.registered = self.registered;
        config.protection =
            identity.map(|identity| source_protection(identity, self.seal == Seal::Tokens));
        if let Frames::Live(_) = frames {
            // They come as their encoder paces them, and leave as the link does.
            config.shaping = Shaping::Off;
            config.all_layers = true;
        }
        LocalSource {
            config,
            frames,
            start_when_joined: self.wait_for,
        }
    }
}

impl OpenGroup {
    pub(crate) async fn open(group: Group, running: Arc<Running>) -> Result<OpenGroup> {
        let shared = Shared::of(&group, running)?;
        let sender = match group.spec.clone() {
            Some(spec) => {
                let (frames, spec) = shared.open(group, spec, 0).await?;
                let limit = Limit::Fixed(spec.max_frame);
                Sender::Open(Open { frames, limit })
            }
            None => {
                let learner = Learner::new(group.composition);
                Sender::Learning(Box::new((group, learner)))
            }
        };
        Ok(OpenGroup {
            shared,
            sender: Mutex::new(sender),
        })
    }

    /// Name of the group.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// What a sink joins with.
    pub fn url(&self) -> String {
        self.shared.url(None).to_string()
    }

    /// What a sink joins with that knows this machine as `host`, where the server listens on all its
    /// addresses.
    pub fn url_at(&self, host: &str) -> String {
        self.shared.url(Some(host)).to_string()
    }

    /// The URL, with a token, by which a sink joins a sealed group: for the member of that name or for any
    /// holder of the URL, for layers up to `level`, to join within `valid`. Hand it over like a password.
    ///
    /// # Errors
    /// `EINVAL` if the group is not sealed: there is nothing a token could open. `EINVAL` for a name that no member can
    /// have.
    pub fn url_for(&self, member: Option<&str>, level: Level, valid: Span) -> Result<String> {
        let Some(identity) = &self.shared.identity else {
            return Err(Error::invalid(
                "token",
                "is of no use: the group is not sealed",
            ));
        };
        if let Some(Err(error)) = member.map(check_name) {
            return Err(NetError::Name {
                of: "the member",
                error,
            }
            .into());
        }
        let now = wall_clock().at(Clock::get().now());
        let claims = Claims {
            flow: self.shared.name.clone(),
            member: member.map(str::to_owned),
            level,
            expires: now.saturating_add(valid.as_ms() / 1_000),
        };
        let token = Token::issue(&Signer::from_seed(&identity.0), claims, random_seed().0);
        let mut url = self.shared.url(None);
        url.token = Some(token.to_string());
        Ok(url.to_string())
    }

    /// Sends a frame: frames of every layer, in the order in which they are decoded. Waits while the
    /// flow is a few frames ahead of its schedule.
    ///
    /// A group without a specification is advertised once its first group of pictures is complete. Where later frames
    /// take more than was learned, the flow is renegotiated with its members and the nodes on their paths.
    ///
    /// # Errors
    /// `EINVAL` for a frame that is empty or larger than the flow specification allows, or for frames
    /// that make no flow; `ECLOSED` after the end.
    pub async fn send(&self, frame: Frame) -> Result<()> {
        let mut sender = self.sender.lock().await;
        if frame.data.is_empty() {
            return Err(Error::invalid("frame", "is empty"));
        }
        if let Sender::Opening(_) = &*sender {
            self.learned(&mut sender).await?;
        }
        match &mut *sender {
            Sender::Opening(_) | Sender::Closed => Err(Status::Closed.into()),
            Sender::Open(Open { frames, limit }) => {
                let max_frame = match limit {
                    Limit::Fixed(max_frame) => *max_frame,
                    Limit::Follows(grower) => grower.room_for(frame.data.len()).await,
                };
                if frame.data.len() > max_frame as usize {
                    let problem = format!("of {} bytes is above {max_frame}", frame.data.len());
                    return Err(Error::invalid("frame", problem));
                }
                if let Limit::Follows(grower) = limit {
                    grower.push(&frame);
                }
                // A caller that closes the group meanwhile need not wait for room.
                let frames = frames.clone();
                drop(sender);
                let sent = frames.send(frame.into()).await;
                sent.map_err(|_| Status::Closed.into())
            }
            Sender::Learning(learning) => {
                if learning.1.take(frame) {
                    self.learned(&mut sender).await?;
                }
                Ok(())
            }
        }
    }

    /// Opens the group for what was learned, and sends what was kept meanwhile.
    async fn learned(&self, sender: &mut Sender) -> Result<()> {
        if let Sender::Learning(_) = sender
            && let Sender::Learning(learning) = std::mem::replace(sender, Sender::Closed)
        {
            let (group, learner) = *learning;
            let Some((spec, frames)) = learner.finish(group.frame_rate) else {
                return Ok(());
            };
            let shared = Arc::clone(&self.shared);
            let flow = self.live_flow();
            *sender = Sender::Opening(tokio::spawn(async move {
                let (open, spec) = shared.open(group, spec, frames.len()).await?;
                let mut grower = Grower::new(&spec, flow);
                for frame in frames {
                    grower.push(&frame);
                    let sent = open.send(frame.into()).await;
                    sent.map_err(|_| Status::Closed)?;
                }
                Ok(Open {
                    frames: open,
                    limit: Limit::Follows(Box::new(grower)),
                })
            }));
        }
        if let Sender::Opening(task) = sender {
            let opened = task.await.unwrap_or(Err(Status::Closed.into()));
            match opened {
                Ok(open) => *sender = Sender::Open(open),
                Err(error) => {
                    *sender = Sender::Closed;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Waits until the group has this number of members.
    pub async fn wait_for_members(&self, members: u32) {
        self.shared.wait_for_members(members).await;
    }

    /// The flow for a live input ([`LiveInput::start`](layercast_net::LiveInput::start)), which
    /// renegotiates it when the input exceeds its reserved rates.
    pub fn live_flow(&self) -> LiveFlow {
        self.shared.live_flow()
    }

    /// The control sockets of the members.
    pub fn control(&self) -> GroupControl {
        let group = Arc::clone(&self.shared);
        GroupControl { group }
    }

    /// The management socket.
    pub fn management(&self) -> ManagementSocket {
        ManagementSocket::of_source(Arc::clone(&self.shared))
    }

    /// Closes the group (`closeGroup`): queued frames leave within `grace`, then the members are notified and
    /// released. Returns the number of frames that could not leave in time, as soon as the others have left.
    ///
    /// Up to two groups of pictures and some frames may be queued: a `grace` shorter than these play loses the last
    /// ones. When it returns, the program may end.
    ///
    /// # Errors
    /// `ECLOSED` if it is closed already.
    pub async fn close(&self, grace: Span) -> Result<u32> {
        let mut sender = self.sender.lock().await;
        self.learned(&mut sender).await?;
        if let Sender::Closed = std::mem::replace(&mut *sender, Sender::Closed) {
            return Ok(0);
        }
        let flow = self.shared.name.clone();
        let ask = |reply| NodeCommand::Close { flow, grace, reply };
        let undelivered = ask_for(&self.shared.commands, ask).await;
        undelivered.ok_or_else(|| Status::Closed.into())
    }
}

impl Shared {
    /// The group on the node of `running`, before it is advertised.
    pub fn of(group: &Group, running: Arc<Running>) -> Result<Arc<Shared>> {
        let names = [
            ("the flow", Some(&group.name)),
            ("the core switch", group.core.as_ref()),
        ];
        for (of, name) in names {
            if let Some(Err(error)) = name.map(|name| check_name(name)) {
                return Err(NetError::Name { of, error }.into());
            }
        }
        let Watched {
            upcalls,
            control,
            members,
            over,
        } = running.watch(&group.name)?;
        Ok(Arc::new(Shared {
            name: group.name.clone(),
            commands: running.commands.clone(),
            upcalls,
            control,
            members,
            over,
            identity: (group.seal != Seal::No).then(|| running.source_seed()),
            running,
        }))
    }

    /// Starts the flow; gives where its frames go, `kept` of them simultaneously, and what is reserved for it.
    async fn open(
        &self,
        group: Group,
        spec: FlowSpec,
        kept: usize,
    ) -> Result<(mpsc::Sender<AppFrame>, FlowSpec)> {
        let (frames, queue) = mpsc::channel(AHEAD + kept);
        let info = self.advertise(group, spec, Frames::Channel(queue)).await?;
        Ok((frames, info.spec))
    }

    /// Starts the flow.
    pub async fn advertise(
        &self,
        group: Group,
        spec: FlowSpec,
        frames: Frames,
    ) -> Result<FlowInfo> {
        let source = group.source(spec, frames, &self.running, self.identity);
        let source = Box::new(source);
        let ask = |reply| NodeCommand::Open { source, reply };
        let opened = ask_for(&self.commands, ask).await;
        Ok(opened.ok_or(Status::Closed)??)
    }

    /// The flow for a live input, which renegotiates it when the input exceeds its reserved rates.
    pub fn live_flow(&self) -> LiveFlow {
        LiveFlow {
            name: self.name.clone(),
            node: self.commands.clone(),
            share: None,
        }
    }

    /// Waits until this number of members has joined.
    pub async fn wait_for_members(&self, members: u32) {
        // The sender is ours, so that there is no error to expect.
        let _ = self
            .members
            .subscribe()
            .wait_for(|&joined| joined >= members)
            .await;
    }

    /// Waits until the last frame has left, or the node stopped.
    pub async fn over(&self) {
        let _ = self.over.subscribe().wait_for(|&over| over).await;
    }

    /// What a sink joins with that knows this machine as `host`.
    pub fn url(&self, host: Option<&str>) -> JoinUrl {
        let mut url = self.running.url(&self.name, host);
        let key = |identity: &Seed| Signer::from_seed(&identity.0).public().0;
        url.source = self.identity.as_ref().map(key);
        url
    }

    /// What the node knows of the group.
    pub async fn state(&self) -> Option<FlowState> {
        let flow = self.name.clone();
        ask_for(&self.commands, |reply| NodeCommand::Info { flow, reply }).await
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.running.forget(&self.name);
    }
}

impl fmt::Debug for OpenGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenGroup")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}
