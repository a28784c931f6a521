use core::net::Ipv4Addr;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Mux;
use crate::AtmAddress;

/// Media type in the header of a media packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaKind {
    /// Audio.
    Audio,
    /// Video.
    Video,
}

/// Identification of a packet's conversation (specs/insane-study.md 2.4).
///
/// Only the first fragment has ports: the caller keeps those of the first fragment, or leaves them zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowKey {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Type of service.
    pub tos: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Source port; zero if the protocol has none.
    pub src_port: u16,
    /// Destination port; zero if the protocol has none.
    pub dst_port: u16,
    /// Media type of a UDP payload; not part of the identification.
    pub media: Option<MediaKind>,
}

/// Type of a conversation, with its direction; "up" is toward the server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum ConversationType {
    TelnetUp,
    TelnetDown,
    #[serde(rename = "ftpctl-up")]
    FtpCtlUp,
    #[serde(rename = "ftpctl-down")]
    FtpCtlDown,
    #[serde(rename = "ftpdata-up")]
    FtpDataUp,
    #[serde(rename = "ftpdata-down")]
    FtpDataDown,
    HttpUp,
    HttpDown,
    SmtpUp,
    SmtpDown,
    NntpUp,
    NntpDown,
    Audio,
    Video,
    /// Other or unknown types.
    Other,
}

use ConversationType::*;

impl ConversationType {
    /// All types.
    pub const ALL: [ConversationType; 15] = [
        TelnetUp,
        TelnetDown,
        FtpCtlUp,
        FtpCtlDown,
        FtpDataUp,
        FtpDataDown,
        HttpUp,
        HttpDown,
        SmtpUp,
        SmtpDown,
        NntpUp,
        NntpDown,
        Audio,
        Video,
        Other,
    ];

    /// Name in records, for example `ftpctl-up`.
    pub fn name(self) -> &'static str {
        match self {
            TelnetUp => "telnet-up",
            TelnetDown => "telnet-down",
            FtpCtlUp => "ftpctl-up",
            FtpCtlDown => "ftpctl-down",
            FtpDataUp => "ftpdata-up",
            FtpDataDown => "ftpdata-down",
            HttpUp => "http-up",
            HttpDown => "http-down",
            SmtpUp => "smtp-up",
            SmtpDown => "smtp-down",
            NntpUp => "nntp-up",
            NntpDown => "nntp-down",
            Audio => "audio",
            Video => "video",
            Other => "other",
        }
    }

    /// Index in [`ConversationType::ALL`], for tables.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ConversationType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FlowKey {
    /// IP protocol number of TCP.
    pub const TCP: u8 = 6;
    /// IP protocol number of UDP.
    pub const UDP: u8 = 17;

    /// Returns the type of the packet's conversation.
    ///
    /// A well-known source port has precedence: packets from it go down to a client, whichever side opened the
    /// connection. The destination port counts otherwise.
    pub fn classify(&self) -> ConversationType {
        match self.protocol {
            Self::TCP => well_known(self.src_port)
                .map(|(_, down)| down)
                .or_else(|| well_known(self.dst_port).map(|(up, _)| up))
                .unwrap_or(Other),
            Self::UDP => match self.media {
                Some(MediaKind::Audio) => Audio,
                Some(MediaKind::Video) => Video,
                None => Other,
            },
            _ => Other,
        }
    }

    /// Whether both TCP ports are well-known, so that the direction is a guess.
    pub fn is_ambiguous(&self) -> bool {
        let known = |port| well_known(port).is_some();
        self.protocol == Self::TCP && known(self.src_port) && known(self.dst_port)
    }

    /// The packed identification of packets that share a circuit, for fast comparison.
    ///
    /// All include the next hop, so that a changed route uses another circuit.
    pub(crate) fn packed(&self, mux: Mux, hop: AtmAddress) -> u128 {
        let hop = u128::from(hop.0);
        let hosts = u128::from(self.src.to_bits()) << 96 | u128::from(self.dst.to_bits()) << 64;
        match mux {
            Mux::Conv => {
                let service = u128::from(self.tos) << 56 | u128::from(self.protocol) << 48;
                let ports = u128::from(self.src_port) << 32 | u128::from(self.dst_port) << 16;
                hosts | service | ports | hop
            }
            Mux::App => hosts | (self.classify() as u128) << 16 | hop,
            Mux::Router => hop,
        }
    }
}

/// The types of packets to and from a well-known port.
fn well_known(port: u16) -> Option<(ConversationType, ConversationType)> {
    Some(match port {
        20 => (FtpDataUp, FtpDataDown),
        21 => (FtpCtlUp, FtpCtlDown),
        23 => (TelnetUp, TelnetDown),
        25 => (SmtpUp, SmtpDown),
        80 => (HttpUp, HttpDown),
        119 => (NntpUp, NntpDown),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(protocol: u8, src_port: u16, dst_port: u16) -> FlowKey {
        FlowKey {
            src: Ipv4Addr::new(128, 32, 131, 10),
            dst: Ipv4Addr::new(128, 32, 132, 2),
            tos: 0,
            protocol,
            src_port,
            dst_port,
            media: None,
        }
    }

    #[test]
    fn ports_tell_type_and_direction() {
        for (port, up, down) in [
            (23, TelnetUp, TelnetDown),
            (21, FtpCtlUp, FtpCtlDown),
            (20, FtpDataUp, FtpDataDown),
            (80, HttpUp, HttpDown),
            (25, SmtpUp, SmtpDown),
            (119, NntpUp, NntpDown),
            (8080, Other, Other),
        ] {
            assert_eq!(key(FlowKey::TCP, 1025, port).classify(), up);
            assert_eq!(key(FlowKey::TCP, port, 1025).classify(), down);
            assert_eq!(key(FlowKey::UDP, port, port).classify(), Other);
            assert_eq!(key(1, port, port).classify(), Other);
        }
    }

    #[test]
    fn between_two_known_ports_the_source_counts() {
        let both = key(FlowKey::TCP, 80, 25);
        assert_eq!(both.classify(), HttpDown);
        assert!(both.is_ambiguous());
        assert!(!key(FlowKey::TCP, 80, 1025).is_ambiguous());
        assert!(!key(FlowKey::UDP, 80, 25).is_ambiguous());
    }

    #[test]
    fn media_are_classified_by_header_and_only_over_udp() {
        let with = |media, protocol| FlowKey {
            media: Some(media),
            ..key(protocol, 5004, 80)
        };
        assert_eq!(with(MediaKind::Audio, FlowKey::UDP).classify(), Audio);
        assert_eq!(with(MediaKind::Video, FlowKey::UDP).classify(), Video);
        assert_eq!(with(MediaKind::Video, FlowKey::TCP).classify(), HttpUp);
    }

    #[test]
    fn packed_names_differ_where_the_conversations_do() {
        let hop = AtmAddress(4);
        let one = key(FlowKey::TCP, 1025, 80);
        let other = |change: fn(&mut FlowKey)| {
            let mut other = one;
            change(&mut other);
            [Mux::Conv, Mux::App, Mux::Router]
                .map(|mux| other.packed(mux, hop) != one.packed(mux, hop))
        };
        assert_eq!(other(|_| ()), [false, false, false]);
        assert_eq!(other(|key| key.tos = 8), [true, false, false]);
        assert_eq!(other(|key| key.src_port = 1026), [true, false, false]);
        assert_eq!(other(|key| key.dst_port = 21), [true, true, false]);
        assert_eq!(other(|key| key.protocol = 1), [true, true, false]);
        assert_eq!(other(|key| key.media = Some(MediaKind::Audio)), [false; 3]);
        assert_eq!(
            other(|key| std::mem::swap(&mut key.src, &mut key.dst)),
            [true, true, false]
        );
        for mux in [Mux::Conv, Mux::App, Mux::Router] {
            assert_ne!(one.packed(mux, hop), one.packed(mux, AtmAddress(5)));
        }
    }

    #[test]
    fn types_are_where_their_index_says() {
        for (index, kind) in ConversationType::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), index);
        }
    }
}
