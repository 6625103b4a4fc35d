//! Records that a server ended, with the last error lines of its log.

use crate::run::recorder::Recorder;
use crate::watch::node_log::{LINES, LOG_DELAY, said, tail};
use fencepost_cluster::protocol::ServiceEnd;
use fencepost_history::fault::{SERVER_ENDED, error_lines};
use fencepost_history::{Kind, ServerEnded};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone)]
pub struct ServerLog {
    pub logs: PathBuf,
    /// What servers write into their logs when they cannot read their own data any more.
    pub unreadable: &'static [&'static str],
    pub recorder: Arc<Recorder>,
}

impl ServerLog {
    /// Records that a server ended, or did not serve `after_fault`. Gives whether it cannot read its data.
    pub(crate) async fn record_end(
        &self,
        server: &str,
        (after_fault, damaged): (Option<u64>, bool),
        end: Option<ServiceEnd>,
    ) -> bool {
        tokio::time::sleep(LOG_DELAY).await;
        let text = tail(&self.logs.join(format!("{server}.log")));
        let says_so = |line: &&str| self.unreadable.iter().any(|sign| line.contains(sign));
        let log: Vec<String> = error_lines(&text, LINES).iter().map(|line| said(line).to_owned()).collect();
        // What servers say of data that was changed under them has no list.
        let last = || damaged.then(|| log.last().cloned().unwrap_or_else(|| "it said nothing".to_owned()));
        let unreadable = text.lines().rfind(says_so).map(|line| said(line).to_owned()).or_else(last);
        let (status, signal) = end.map_or((None, None), |end| (Some(end.status), end.signal));
        let is_unreadable = unreadable.is_some();
        let ended = ServerEnded { node: server.to_owned(), after_fault, status, signal, log, unreadable };
        self.recorder.nemesis(Kind::Info, SERVER_ENDED, json!(ended), None);
        is_unreadable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::recorder::Placement;
    use crate::stop::Stop;
    use fencepost_history::{Writer, read_history};

    #[tokio::test]
    async fn an_ended_server_is_recorded_with_the_errors_of_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let noise = "INFO the log is damaged\n".to_owned() + &"INFO all is well\n".repeat(2000);
        let text = format!("{noise}10:00:00.000 server | ERROR disk is full\nINFO bye\n");
        std::fs::write(folder.path().join("n1.log"), text).unwrap();
        let history = folder.path().join("history.jsonl");
        let placement = Placement { slots: 1, clients: 1 };
        let writer = Writer::create(&history).unwrap();
        let recorder = Arc::new(Recorder::new(writer, placement, Arc::new(Stop::default()), false));
        let log = ServerLog { logs: folder.path().to_owned(), unreadable: &["is full"], recorder };
        let killed = ServiceEnd { status: "was ended by SIGKILL".to_owned(), signal: Some(9) };
        log.record_end("n1", (None, false), Some(killed)).await;
        log.record_end("n2", (Some(4), false), None).await;
        assert!(log.record_end("n3", (Some(5), true), None).await, "whatever it says");
        let events = read_history(&history).unwrap();
        let ended: Vec<ServerEnded> = events.iter().filter_map(ServerEnded::read).collect();
        assert_eq!(ended[0].log, ["ERROR disk is full"]);
        assert_eq!((ended[0].node.as_str(), ended[0].after_fault), ("n1", None));
        assert!(ended[0].was_killed() && !ended[1].was_killed());
        assert_eq!((ended[1].log.len(), ended[1].after_fault), (0, Some(4)));
        assert_eq!(ended[0].unreadable.as_deref(), Some("ERROR disk is full"));
        assert_eq!(ended[1].unreadable, None);
        assert_eq!(ended[2].unreadable.as_deref(), Some("it said nothing"));
    }
}
