use crate::dist::{DistError, Distribution};

macro_rules! library {
    ($($name:literal),* $(,)?) => {
        /// The distributions that come with the program.
        const FILES: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../data/", $name, ".dist")))),*
        ];
    };
}

library!(
    "telnet.interarrival",
    "telnet.replysize",
    "telnet.duration",
    "ftp.nitems",
    "ftp.itemsize",
    "ftp.ctlsize",
    "smtp.itemsize",
    "nntp.nitems",
    "nntp.itemsize",
    "phone.talkspurt",
    "phone.pause",
    "http.request",
    "http.reply",
    "http.files_per_page",
    "http.consecutive_pages",
    "http.think",
    "http97.request.primary",
    "http97.reply.primary",
    "http97.request.secondary",
    "http97.reply.secondary",
    "video.size_cr",
    "video.size_bg",
    "web-search",
    "data-mining",
    "facebook-hadoop",
);

/// The names of the distributions that come with the program (specs/insane-workloads.md 3.1, 3.2, and flow sizes of data centres).
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The distribution of this name, if it comes with the program.
pub(crate) fn get(name: &str) -> Option<Result<Distribution, DistError>> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    found.map(|(name, text)| Distribution::parse(name, text))
}
