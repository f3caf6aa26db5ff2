//! A way into a cluster by TCP, for drivers that know no Unix sockets: PostgreSQL's for Java.

use crate::cluster::Cluster;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;

/// Opens a port of this machine that leads to the cluster, for as long as the test's process lives.
pub fn door(cluster: &Cluster) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("some port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let socket = cluster.folder().join(".s.PGSQL.5432");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // Where no server listens, the client sees its connection closed.
            if let Ok(server) = UnixStream::connect(&socket) {
                join(client, server);
            }
        }
    });
    port
}

/// Each end hears what the other says, until one hangs up.
fn join(client: TcpStream, server: UnixStream) {
    let (Ok(mut client_says), Ok(mut server_says)) = (client.try_clone(), server.try_clone()) else { return };
    let (mut client_hears, mut server_hears) = (client, server);
    thread::spawn(move || {
        _ = io::copy(&mut client_says, &mut server_hears);
        _ = server_hears.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        _ = io::copy(&mut server_says, &mut client_hears);
        _ = client_hears.shutdown(Shutdown::Both);
    });
}
