# The dumbbell of python/layercast_lab/dumbbell.py for ns-2.35; prints one JSON object.
#
# Usage: ns dumbbell.tcl NAME VALUE ... with the names of `Cell.arguments`.
array set p $argv

ns-random $p(seed)
# Limits so large are none.
set endless 1000000

Agent/TCP set packetSize_ $p(mss)
Agent/TCP set useHeaders_ true
Agent/TCP set tcpip_base_hdr_size_ 40
Agent/TCP set window_ $p(window)
Agent/TCP set windowInit_ $p(initial_window)
Agent/TCP set tcpTick_ 0.001
Agent/TCP set rtxcur_init_ 1.0
Agent/TCP set minrto_ 0.2
Agent/TCP set maxrto_ 60
Agent/TCP set singledup_ 1
Agent/TCP/Newreno set newreno_changes1_ 1
Agent/TCP/Newreno set partial_window_deflation_ 1
# The default is that of 2001; RFC 6582 3.2 step 3, first option.
Agent/TCP/Newreno set exit_recovery_fix_ 1
Agent/TCPSink set packetSize_ 40
Agent/TCPSink set maxSackBlocks_ 3
Agent/TCPSink/DelAck set interval_ 40ms
Agent/TCPSink/Sack1/DelAck set interval_ 40ms
Queue/RED set bytes_ false
Queue/RED set queue_in_bytes_ false
Queue/RED set gentle_ true
Queue/RED set wait_ false
Queue/RED set setbit_ false
Queue/RED set adaptive_ 0
Queue/RED set mean_pktsize_ [expr {$p(mss) + 40}]
Queue/RED set idle_pktsize_ [expr {$p(mss) + 40}]

set ns [new Simulator]
$ns use-scheduler Heap
# Only the trunk is a choice of queue; access links hold everything.
set left [$ns node]
set right [$ns node]
if {$p(red)} {
    Queue/RED set thresh_ $p(red_min)
    Queue/RED set maxthresh_ $p(red_max)
    Queue/RED set q_weight_ $p(red_weight)
    Queue/RED set linterm_ [expr {1.0 / $p(red_max_p)}]
    $ns duplex-link $left $right $p(trunk_bps) $p(trunk_delay) RED
    set limit $p(queue)
} else {
    $ns duplex-link $left $right $p(trunk_bps) $p(trunk_delay) DropTail
    # DropTail drops what would fill the last place.
    set limit [expr {$p(queue) + 1}]
}
$ns queue-limit $left $right $limit
$ns queue-limit $right $left $limit

set sack [expr {$p(variant) eq "sack"}]
set source [expr {$sack ? "Agent/TCP/Sack1" : "Agent/TCP/Newreno"}]
set sink [expr {$sack ? "Agent/TCPSink/Sack1" : "Agent/TCPSink"}]
if {$p(delayed_acks)} {append sink /DelAck}
set n 0
foreach start $p(starts) {
    set from($n) [$ns node]
    set to($n) [$ns node]
    $ns duplex-link $from($n) $left $p(access_bps) $p(access_delay) DropTail
    $ns duplex-link $right $to($n) $p(access_bps) $p(access_delay) DropTail
    foreach {a b} [list $from($n) $left $left $from($n) $right $to($n) $to($n) $right] {
        $ns queue-limit $a $b $endless
    }
    set tcp($n) [new $source]
    set end [new $sink]
    $ns attach-agent $from($n) $tcp($n)
    $ns attach-agent $to($n) $end
    $ns connect $tcp($n) $end
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp($n)
    $ns at $start "$ftp start"
    set before($n) 0
    incr n
}
# A monitor costs time; speed is measured without.
if {$p(count)} {set trunk [$ns monitor-queue $left $right ""]}

proc warm {} {
    global n before tcp
    for {set i 0} {$i < $n} {incr i} {set before($i) [$tcp($i) set ack_]}
}

proc finish {} {
    global n before tcp p trunk
    set goodputs {}
    foreach name {sent acks again timeouts} {set $name 0}
    for {set i 0} {$i < $n} {incr i} {
        set got [expr {[$tcp($i) set ack_] - $before($i)}]
        lappend goodputs [expr {8.0 * $p(mss) * $got / ($p(seconds) - $p(warm_up))}]
        incr sent [$tcp($i) set ndatapack_]
        incr acks [$tcp($i) set nackpack_]
        incr again [$tcp($i) set nrexmitpack_]
        incr timeouts [$tcp($i) set nrexmit_]
    }
    set drops [expr {$p(count) ? [$trunk set pdrops_] : 0}]
    puts "{\"goodputs\": \[[join $goodputs ,]\], \"sent\": $sent, \"acks\": $acks, \"again\": $again,\
        \"timeouts\": $timeouts, \"drops\": $drops}"
    exit 0
}

$ns at $p(warm_up) warm
$ns at $p(seconds) finish
$ns run
