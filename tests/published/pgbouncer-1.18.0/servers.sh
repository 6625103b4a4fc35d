# PostgreSQL, and pgbouncer in front of it with its defaults but for `pool_mode`; for `sh servers.sh ADDRESS PORT FOLDER`.
as_postgres="setpriv --reuid=postgres --regid=postgres --clear-groups"
$as_postgres /usr/lib/postgresql/15/bin/postgres -D "$3/pg" -c listen_addresses="$1" -c unix_socket_directories= &

cat > /tmp/pgbouncer.ini <<INI
[databases]
* = host=$1 port=5432
[pgbouncer]
listen_addr = $1
listen_port = $2
unix_socket_dir =
auth_type = any
pool_mode = transaction
ignore_startup_parameters = extra_float_digits
INI
sed -i 's/^\* = .*/& user=postgres/' /tmp/pgbouncer.ini
exec $as_postgres /usr/sbin/pgbouncer /tmp/pgbouncer.ini
