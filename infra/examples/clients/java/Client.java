// Asks an agent for something and waits for what came of it: produce a request, consume the terminal event.
// Needs kafka-clients and slf4j on the class path; Java 17 runs it from this file.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

public class Client {
  public static void main(String[] args) throws Exception {
    String brokers = args.length > 0 ? args[0] : "127.0.0.1:29092";

    // The same ID with the same fields is the same task, however often it is sent: after a crash, send it again.
    String id = UUID.randomUUID().toString();
    String request =
        """
        {"tenant": "demo", "actor": "ada", "task_type": "refund", "agent": "refund-desk",
         "goal": "May customer c-1001 have a refund?", "requested_at": "%s"}
        """.formatted(Instant.now());

    Properties settings = new Properties();
    settings.put("bootstrap.servers", brokers);
    settings.put("acks", "all");
    settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
    settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
      producer.send(new ProducerRecord<>("turnwright.invocations.v1", id, request)).get();
    }

    settings = new Properties();
    settings.put("bootstrap.servers", brokers);
    settings.put("group.id", "my-service");
    settings.put("auto.offset.reset", "earliest");
    settings.put("enable.auto.commit", "false");
    settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
    settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
    Set<String> seen = new HashSet<>();
    Instant giveUp = Instant.now().plusSeconds(60);
    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
      consumer.subscribe(List.of("turnwright.terminals.v1"));
      while (Instant.now().isBefore(giveUp)) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
          String eventId = new String(record.headers().lastHeader("ce_id").value(), StandardCharsets.UTF_8);
          // Publishing may repeat. A service parses the JSON with the library it has; the key is the Invocation ID.
          if (seen.add(eventId) && id.equals(record.key()) && record.value().contains("\"resumable\":false")) {
            System.out.println(record.value());
            return;
          }
        }
      }
    }
    throw new IllegalStateException("no terminal event within a minute");
  }
}
