//! `layercast web`: flows in a browser, and a dashboard of nodes, receivers and links.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use clap::Args;
use layercast_net::{Identity, Remote, await_flows, outward};
use layercast_protect::JoinUrl;
use layercast_web::{Board, Flow, Trouble, Web, WebConfig, WebError};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, Outcome};
use crate::line::Line;
use crate::node::{Stop, runtime};
use crate::output::{Lines, complain, print};
use crate::{address, name, secret, signals, stats, units};

/// How long a node that does not answer, or has no flows, is waited for at the start.
const FLOWS_WITHIN: Duration = Duration::from_secs(30);
/// Time between two questions to each node.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Time that a node has to answer.
const ANSWER: Duration = Duration::from_secs(3);
/// The environment variable with the token of viewers.
const TOKEN: &str = "LAYERCAST_WEB_TOKEN";
/// Viewers at a time, unless the user says otherwise.
const VIEWERS: usize = 32;

/// `layercast web`.
#[derive(Debug, Args)]
#[command(after_help = "\
Joins the flows as a receiver of its own and serves a page with a player and a dashboard: the
nodes, their receivers with the reason why each gets no more, and the links. Open the URL that it
prints; the part behind # is the token of viewers, which no other host sees. The page plays H.264,
H.265 and AV1 as the browser decodes them, with sound in AAC. docs/src/how-to/web.md

Examples:
  layercast web @server.url
  layercast web 192.0.2.7:7400/film 192.0.2.8:7400 --listen 127.0.0.1:9000
  layercast web @server.url --host media.example --token-file viewers.token")]
pub struct WebArgs {
    /// URL of a node, @FILE that holds it, or HOST:PORT/FLOW: several nodes are shown side by side. Without /FLOW all its flows
    #[arg(required = true)]
    pub url: Vec<String>,
    /// Address where browsers connect, by TCP and, for WebTransport, by UDP; a port alone is one of 127.0.0.1, and 0 is a free one. HTTPS is spoken on other addresses than those of this host alone
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8400", value_parser = crate::metrics::address)]
    pub listen: SocketAddr,
    /// A name by which browsers call this host, such as that of a proxy; requests for other names are refused
    #[arg(long = "host", value_name = "NAME", value_parser = host)]
    pub hosts: Vec<String>,
    /// Certificate chain for HTTPS (PEM), with --key [default: HTTP on a loopback address, HTTPS with a self-signed certificate on others]
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// File with the token of viewers, 16 characters or more [default: LAYERCAST_WEB_TOKEN, or a random one]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Name of the receivers among the members of their flows, before a number [default: web- and six hexadecimal digits]
    #[arg(long, value_name = "NAME", value_parser = units::Name)]
    pub name: Option<String>,
    /// Viewers at a time
    #[arg(long, value_name = "N", default_value = "32", value_parser = units::whole(1..=10_000_usize))]
    pub viewers: usize,
    /// File with the certificate of an authority that is trusted, for URLs without a fingerprint (PEM)
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Print JSON lines (docs/src/reference/json.md)
    #[arg(long)]
    pub json: bool,
}

/// Shows a node of this process and its flow in a browser, by a thread of its own that ends with the process, and prints where.
///
/// # Errors
/// The address is taken, or is none of this host.
pub fn beside(listen: SocketAddr, name: &str, node: Remote, url: &JoinUrl) -> Outcome {
    let flows = url.flow.iter().map(|flow| Flow {
        name: flow.clone(),
        url: url.to_string(),
    });
    let config = WebConfig {
        listen,
        names: Vec::new(),
        token: secret::text(None, TOKEN)?,
        flows: flows.collect(),
        identity: identity(listen, &[], None)?,
        member: name::unique("web", None),
        viewers: VIEWERS,
        reports: None,
    };
    let node = Node {
        name: name.to_owned(),
        remote: node,
    };
    let (bound, told) = mpsc::channel();
    let showing = move || {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(failure) => return drop(bound.send(Err(failure))),
        };
        runtime.block_on(async {
            match Web::bind(config).await {
                Ok(web) => {
                    let board = web.board();
                    let _ = bound.send(Ok(web.url().to_owned()));
                    tokio::select! {
                        () = web.serve(CancellationToken::new()) => {}
                        () = ask(vec![node], board) => {}
                    }
                }
                Err(error) => drop(bound.send(Err(unserved(error)))),
            }
        });
    };
    let started = thread::Builder::new().name("web".into()).spawn(showing);
    started.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    // The thread has sent one of the two, or has ended.
    let url = told
        .recv()
        .unwrap_or_else(|_| Err(Failure::new("the web server ended at its start")))?;
    complain(&format!("open {url}"));
    Ok(())
}

/// Reads a name of this host, or an address, with or without a port.
fn host(text: &str) -> Result<String, String> {
    let is_name = |it: char| it.is_ascii_alphanumeric() || "-._:[]".contains(it);
    match !text.is_empty() && text.chars().all(is_name) {
        true => Ok(text.to_owned()),
        false => Err("a name of a host such as media.example, without scheme and slash".to_owned()),
    }
}

/// A node that is shown.
struct Node {
    /// Its host and port.
    name: String,
    remote: Remote,
}

/// Runs the command.
pub fn run(args: &WebArgs) -> Outcome {
    // A URL in a file may have to be waited for.
    signals::exit_on_first()?;
    let urls = args.url.iter().map(|text| address::parse(text));
    let urls: Vec<JoinUrl> = urls.collect::<Result<_, _>>()?;
    let token = secret::text(args.token_file.as_deref(), TOKEN)?;
    let own = args.cert.as_deref().zip(args.key.as_deref());
    let identity = identity(args.listen, &args.hosts, own)?;
    runtime()?.block_on(async {
        let stop = Stop::listen()?;
        let (mut nodes, mut flows) = (Vec::new(), Vec::new());
        for url in &urls {
            let remote = address::resolve(url, args.ca.as_deref()).await?;
            let name = url.host.clone();
            let place = match urls.len() {
                1 => String::new(),
                _ => format!(" ({name})"),
            };
            flows.extend(flows_of(url, &remote, &place).await?);
            nodes.push(Node { name, remote });
        }
        let member = args.name.clone();
        let config = WebConfig {
            listen: args.listen,
            names: args.hosts.clone(),
            token,
            flows,
            identity: identity.clone(),
            member: member.unwrap_or_else(|| name::unique("web", None)),
            viewers: args.viewers,
            reports: None,
        };
        let web = Web::bind(config).await.map_err(unserved)?;
        if let Some(identity) = &identity {
            let fingerprint = identity.fingerprint().in_hexadecimal();
            complain(&format!("SHA-256 of the certificate: {fingerprint}"));
        }
        tell(args, &web)?;
        let asking = ask(nodes, web.board());
        let mut telling: JoinSet<()> = web.troubles().into_iter().map(tell_trouble).collect();
        tokio::select! {
            () = web.serve(stop.token.clone()) => {}
            () = asking => {}
        }
        telling.abort_all();
        stop.outcome()
    })
}

fn unserved(error: WebError) -> Failure {
    let hint = match &error {
        WebError::Bind { .. } => {
            "--listen takes a free TCP port of this host, or 0 for any: --listen 127.0.0.1:0"
        }
        WebError::Token => {
            "put what openssl rand -hex 16 prints into the file of --token-file, or into LAYERCAST_WEB_TOKEN"
        }
        WebError::Identity(_) => {
            "--cert and --key take PEM files, such as certbot and openssl write"
        }
    };
    Failure::new(error).hint(hint)
}

/// What HTTPS needs, where the page is for other hosts or the user gives a certificate and its key.
fn identity(
    listen: SocketAddr,
    hosts: &[String],
    own: Option<(&Path, &Path)>,
) -> Result<Option<Arc<Identity>>, Failure> {
    let identity = match own {
        Some((chain, key)) => Identity::from_pem(chain, key),
        None if listen.ip().is_loopback() => return Ok(None),
        None => {
            let address = outward(listen.ip()).to_string();
            Identity::generate_for(hosts.iter().cloned().chain([address]).collect())
        }
    };
    address::own(identity).map(Some)
}

/// The flows of a node that can be watched; their names end with `place`.
async fn flows_of(url: &JoinUrl, remote: &Remote, place: &str) -> Result<Vec<Flow>, Failure> {
    let shown = |flow: &str| Flow {
        name: format!("{flow}{place}"),
        url: JoinUrl {
            flow: Some(flow.to_owned()),
            ..url.clone()
        }
        .to_string(),
    };
    if let Some(flow) = &url.flow {
        return Ok(vec![shown(flow)]);
    }
    let host = secret::hidden(&url.host).into_owned();
    let tell = |why: &str| eprintln!("waiting for {host}: {why}; asking again");
    let flows = await_flows(remote.clone(), FLOWS_WITHIN, tell).await;
    let flows = flows.map_err(Failure::net)?;
    Ok(flows.iter().map(|flow| shown(&flow.name)).collect())
}

/// Says where the page is.
fn tell(args: &WebArgs, web: &Web) -> Outcome {
    let url = web.url();
    match args.json {
        true => Lines::Stdout.write(&Line::Ready {
            node: "web".to_owned(),
            address: Some(web.address()),
            url: Some(url.to_owned()),
        }),
        false => print(&format!("open {url}\n")),
    }
}

/// Why a node does not answer, without the name of this command before it.
fn in_words(failure: &Failure) -> String {
    let text = failure.to_string();
    match text.strip_prefix("layercast: ") {
        Some(text) => text.to_owned(),
        None => text,
    }
}

/// Says when a flow does not come, why, and when it comes again.
async fn tell_trouble(mut trouble: Trouble) {
    while let Some(problem) = trouble.next().await {
        let flow = trouble.flow();
        complain(&match problem {
            Some(problem) => format!("{flow}: {problem}"),
            None => format!("{flow}: it comes again"),
        });
    }
}

/// Asks the nodes again and again while a dashboard is open, all at the same time, and shows what they say.
async fn ask(nodes: Vec<Node>, board: Board) {
    let mut turn = interval(ASK_EVERY);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turn.tick().await;
        if !board.is_watched() {
            continue;
        }
        let mut asked = JoinSet::new();
        for (place, node) in nodes.iter().enumerate() {
            let remote = node.remote.clone();
            asked.spawn(async move {
                let answer = timeout(ANSWER, stats::of_node(remote)).await;
                let said = match answer {
                    Ok(Ok(value)) => Ok(value),
                    Ok(Err(failure)) => Err(in_words(&failure)),
                    Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs())),
                };
                (place, said)
            });
        }
        let mut said = asked.join_all().await;
        said.sort_by_key(|(place, _)| *place);
        board.show(
            said.into_iter()
                .map(|(place, said)| (&*nodes[place].name, said)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_addresses_than_those_of_this_host_alone_are_served_by_https() {
        for (listen, is_protected) in [
            ("127.0.0.1:8400", false),
            ("[::1]:0", false),
            ("0.0.0.0:8400", true),
            ("192.0.2.7:8400", true),
        ] {
            let identity = identity(listen.parse().expect("an address"), &[], None);
            assert_eq!(
                identity.expect("one is made").is_some(),
                is_protected,
                "{listen}"
            );
        }
    }

    #[test]
    fn why_a_node_does_not_answer_is_said_without_the_name_of_the_command() {
        let failure = Failure::new("cannot reach 192.0.2.7:7400").hint("does it run?");
        let text = in_words(&failure);
        assert_eq!(text, "cannot reach 192.0.2.7:7400\n  does it run?");
    }
}
