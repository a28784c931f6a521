use std::io;

use layercast_core::{Refusal, Status};
use layercast_mets::SourceError;
use layercast_net::{IdentityError, NetError};
use layercast_protect::UrlError;
use thiserror::Error;

/// What a call of this crate gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call did not do what it was asked.
#[derive(Debug, Error)]
pub enum Error {
    /// The request is refused: the status of a Nak (specs/mets.md 2.2).
    #[error("{0}")]
    Status(Status),
    /// The address is none.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The name of a host leads nowhere.
    #[error("cannot find {host}: {source}")]
    Host {
        /// As written in the address.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// The address names no flow, and the node does not have exactly one.
    #[error("{host} has {}: name one, as in {host}/NAME", known(.flows))]
    WhichFlow {
        /// The node.
        host: String,
        /// The flows it has.
        flows: Vec<String>,
    },
    /// A certificate that cannot be made or read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Sockets, timers, neighbours.
    #[error(transparent)]
    Net(NetError),
}

impl Error {
    /// The status code of the request (specs/mets.md 2.2), or `ENET` where it did not come so far.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Status(status) => status.code(),
            Error::Url(_) | Error::WhichFlow { .. } => "EINVAL",
            Error::Host { .. } | Error::Identity(_) | Error::Net(_) => "ENET",
        }
    }

    pub(crate) fn invalid(field: &str, problem: impl Into<String>) -> Error {
        Error::Status(Status::Invalid {
            field: field.into(),
            problem: problem.into(),
        })
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        Error::Status(status)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::Status(Status::Admit(refusal))
    }
}

impl From<NetError> for Error {
    fn from(error: NetError) -> Error {
        match error {
            NetError::Refused(refusal) => refusal.into(),
            NetError::Source(SourceError::Spec(error)) => Status::from(error).into(),
            NetError::Source(error @ SourceError::Field { field, .. }) => {
                Error::invalid(field, error.to_string())
            }
            NetError::Name { of, error } => Error::invalid("name", format!("of {of}: {error}")),
            NetError::FlowExists { flow } => {
                Error::invalid("name", format!("{flow:?} is open here already"))
            }
            NetError::OtherGroup { ref node, .. } => {
                let way = format!("{error}, or by a name that is not in the list of {node}");
                Error::invalid("name", way)
            }
            NetError::NoSuchFlow { flow, known, .. } => {
                Error::invalid("flow", format!("{flow:?} is not there; there is: {known}"))
            }
            other => Error::Net(other),
        }
    }
}

fn known(flows: &[String]) -> String {
    match flows {
        [] => "no flow yet".into(),
        many => format!("several flows ({})", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_on_the_list_of_a_group_hears_where_its_media_go() {
        let error = Error::from(NetError::OtherGroup {
            node: "switch-1".into(),
            name: "ann".into(),
            group: "239.1.2.3:7700".parse().unwrap(),
        });
        assert_eq!(error.code(), "EINVAL");
        let text = error.to_string();
        let said = "switch-1 sends the media of ann to 239.1.2.3:7700: join with --multicast";
        assert!(text.contains(said), "{text}");
        assert!(text.contains("not in the list of switch-1"), "{text}");
    }
}
