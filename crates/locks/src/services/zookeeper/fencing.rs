//! The fencing program in a node, as powerful as the shell that Hadoop's `sshfence` logs into, by which a new
//! holder makes its predecessor harmless. It takes one line a connection (`kill PID`, `cut ADDRESS`), and
//! answers `done` or why not. Source: the fencing methods of Hadoop's NameNode high availability.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

pub const FENCING_PORT: u16 = 7100;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct FencingError(pub(super) String);

const GONE_WITHIN: Duration = Duration::from_secs(2);

/// The program `fencepost fence`: serves until it is killed. Gives an exit code.
pub async fn run_fencing() -> i32 {
    let listener = match TcpListener::bind(("0.0.0.0", FENCING_PORT)).await {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("the fencing program cannot listen on port {FENCING_PORT}: {error}");
            return 255;
        }
    };
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream));
    }
    255
}

async fn serve(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    if stream.read_line(&mut line).await.is_err() {
        return;
    }
    let answer = match fence(line.trim()).await {
        Ok(()) => "done\n".to_owned(),
        Err(why) => format!("{why}\n"),
    };
    // The client that gave the order may have gone; what was done stays done.
    let _ = stream.get_mut().write_all(answer.as_bytes()).await;
}

async fn fence(order: &str) -> Result<(), FencingError> {
    match order.split_once(' ') {
        Some(("kill", pid)) => {
            end(pid.parse().map_err(|_| FencingError(format!("`{pid}` is no process number")))?).await
        }
        Some(("cut", address)) => {
            cut(address.parse().map_err(|_| FencingError(format!("`{address}` is no address")))?).await
        }
        _ => Err(FencingError(format!("`{order}` is neither `kill PID` nor `cut ADDRESS`"))),
    }
}

async fn end(pid: i32) -> Result<(), FencingError> {
    let there = PathBuf::from(format!("/proc/{pid}"));
    if there.exists() {
        kill(Pid::from_raw(pid), Signal::SIGKILL)
            .map_err(|error| FencingError(format!("cannot kill {pid}: {error}")))?;
    }
    let begun = Instant::now();
    while there.exists() {
        if begun.elapsed() > GONE_WITHIN {
            return Err(FencingError(format!("process {pid} is still there after SIGKILL")));
        }
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

async fn cut(address: IpAddr) -> Result<(), FencingError> {
    let rule = ["-w", "-I", "INPUT", "-s", &address.to_string(), "-j", "DROP"];
    let output = Command::new("iptables").args(rule).output().await;
    let output = output.map_err(|error| FencingError(format!("iptables cannot be run: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(FencingError(format!("iptables failed: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// Gives an order and waits until it is carried out. The error is why it was not, or is not known to be.
pub(super) async fn order(host: &str, order: &str, within: Duration) -> Result<(), FencingError> {
    let asked = async {
        let stream = TcpStream::connect((host, FENCING_PORT)).await?;
        let mut stream = BufReader::new(stream);
        stream.get_mut().write_all(format!("{order}\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_line(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    after_order(timeout(within, asked).await.ok(), host)
}

/// After an order; none: it was not answered in time.
fn after_order(answer: Option<std::io::Result<String>>, host: &str) -> Result<(), FencingError> {
    let did = match answer {
        Some(Ok(answer)) if answer.trim() == "done" => return Ok(()),
        Some(Ok(answer)) => format!("did not carry it out: {}", answer.trim()),
        Some(Err(error)) => format!("cannot be asked: {error}"),
        None => "did not answer in time".to_owned(),
    };
    Err(FencingError(format!("the fencing program on {host} {did}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn kills_a_process_and_refuses_nonsense() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().unwrap();
        let (fenced, status) = tokio::join!(fence_text(format!("kill {pid}")), child.wait());
        assert_eq!(fenced, Ok(()));
        assert!(!status.unwrap().success());
        assert!(fence("kill everybody").await.unwrap_err().0.contains("no process number"));
        assert!(fence("cut the rope").await.unwrap_err().0.contains("no address"));
        assert!(fence("stop").await.unwrap_err().0.contains("neither"));
    }

    #[test]
    fn an_order_is_carried_out_by_the_word_of_the_program_only() {
        let said = |answer| after_order(answer, "c1").map_err(|error| error.0);
        let refused = |did: &str| Err(format!("the fencing program on c1 {did}"));
        assert_eq!(said(Some(Ok("done\n".to_owned()))), Ok(()));
        assert_eq!(
            said(Some(Ok("cannot kill 7\n".to_owned()))),
            refused("did not carry it out: cannot kill 7")
        );
        // The program was killed with the order half done.
        assert_eq!(said(Some(Ok(String::new()))), refused("did not carry it out: "));
        assert_eq!(said(Some(Err(std::io::Error::other("refused")))), refused("cannot be asked: refused"));
        assert_eq!(said(None), refused("did not answer in time"));
    }

    async fn fence_text(order: String) -> Result<(), FencingError> {
        fence(&order).await
    }
}
