-- not for mariadb-10.11: it has no utf8mb4_0900_ai_ci
-- MySQL dump 10.13  Distrib 9.7.4, for Linux (x86_64)
--
-- Host: localhost    Database: shop
-- ------------------------------------------------------
-- Server version	9.7.4-2
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO,ANSI' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;

--
-- Table structure for table "customer"
--

DROP TABLE IF EXISTS "customer";
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE "customer" (
  "id" int unsigned NOT NULL AUTO_INCREMENT,
  "name" varchar(60) NOT NULL,
  "mail" varchar(80) CHARACTER SET latin1 COLLATE latin1_german1_ci DEFAULT NULL,
  "born" date DEFAULT NULL,
  "score" decimal(10,3) NOT NULL DEFAULT '0.000',
  "ratio" double DEFAULT NULL,
  "kind" enum('new','old','') NOT NULL DEFAULT 'new',
  "flags" set('a','b','c') DEFAULT NULL,
  "photo" blob,
  "token" varbinary(16) DEFAULT NULL,
  "bits" bit(9) DEFAULT NULL,
  "made" timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  "at" datetime(3) DEFAULT NULL,
  "long_ago" year DEFAULT NULL,
  PRIMARY KEY ("id"),
  UNIQUE KEY "mail" ("mail"),
  KEY "name" ("name"(20))
);
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table "customer"
--

LOCK TABLES "customer" WRITE;
/*!40000 ALTER TABLE "customer" DISABLE KEYS */;
INSERT INTO "customer" ("id", "name", "mail", "born", "score", "ratio", "kind", "flags", "photo", "token", "bits", "made", "at", "long_ago") VALUES (1,'Anna Müller','anna@example.org','1980-02-29',12.345,0.1,'new','a,c',0x00FF27225C0A1A,0x000102,0x0155,'2024-03-31 00:30:00','2024-01-01 12:00:00.125',1999);
INSERT INTO "customer" ("id", "name", "mail", "born", "score", "ratio", "kind", "flags", "photo", "token", "bits", "made", "at", "long_ago") VALUES (2,'O\'Brien \\ \"x\"',NULL,NULL,-0.001,1e300,'','',NULL,NULL,NULL,'2024-01-01 00:00:00',NULL,NULL);
INSERT INTO "customer" ("id", "name", "mail", "born", "score", "ratio", "kind", "flags", "photo", "token", "bits", "made", "at", "long_ago") VALUES (7,'日本語 😀\n	\0\Z',NULL,'1000-01-01',9999999.999,-0.00000015,'old',NULL,0x74657874,0x5C4E,0x0000,'2038-01-19 03:14:07','9999-12-31 23:59:59.999',2155);
/*!40000 ALTER TABLE "customer" ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table "odd `name"
--

DROP TABLE IF EXISTS "odd `name";
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE "odd `name" (
  "a b" int DEFAULT NULL,
  "select" varchar(20) DEFAULT 'x''y'
);
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table "odd `name"
--

LOCK TABLES "odd `name" WRITE;
/*!40000 ALTER TABLE "odd `name" DISABLE KEYS */;
INSERT INTO "odd `name" ("a b", "select") VALUES (1,'é');
INSERT INTO "odd `name" ("a b", "select") VALUES (NULL,NULL);
INSERT INTO "odd `name" ("a b", "select") VALUES (1,'é');
/*!40000 ALTER TABLE "odd `name" ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table "purchase"
--

DROP TABLE IF EXISTS "purchase";
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE "purchase" (
  "id" bigint NOT NULL AUTO_INCREMENT,
  "customer" int unsigned NOT NULL,
  "amount" decimal(9,2) NOT NULL,
  "total" decimal(10,2) GENERATED ALWAYS AS ((`amount` * 2)) VIRTUAL,
  "note" text,
  PRIMARY KEY ("id"),
  KEY "customer" ("customer"),
  CONSTRAINT "purchase_customer" FOREIGN KEY ("customer") REFERENCES "customer" ("id") ON DELETE CASCADE
);
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table "purchase"
--

LOCK TABLES "purchase" WRITE;
/*!40000 ALTER TABLE "purchase" DISABLE KEYS */;
INSERT INTO "purchase" ("id", "customer", "amount", "note") VALUES (1,1,10.50,'first; -- no comment');
INSERT INTO "purchase" ("id", "customer", "amount", "note") VALUES (2,1,0.00,'/* none */');
INSERT INTO "purchase" ("id", "customer", "amount", "note") VALUES (3,7,-5.25,NULL);
/*!40000 ALTER TABLE "purchase" ENABLE KEYS */;
UNLOCK TABLES;
/*!50003 SET @saved_cs_client      = @@character_set_client */ ;
/*!50003 SET @saved_cs_results     = @@character_set_results */ ;
/*!50003 SET @saved_col_connection = @@collation_connection */ ;
/*!50003 SET character_set_client  = utf8mb4 */ ;
/*!50003 SET character_set_results = utf8mb4 */ ;
/*!50003 SET collation_connection  = utf8mb4_0900_ai_ci */ ;
/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;
/*!50003 SET sql_mode              = 'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION' */ ;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER="root"@"localhost"*/ /*!50003 TRIGGER "purchase_before" BEFORE INSERT ON "purchase" FOR EACH ROW BEGIN IF NEW.note = 'never' THEN SET NEW.note = 'x;y'; END IF; END */;;
DELIMITER ;
/*!50003 SET sql_mode              = @saved_sql_mode */ ;
/*!50003 SET character_set_client  = @saved_cs_client */ ;
/*!50003 SET character_set_results = @saved_cs_results */ ;
/*!50003 SET collation_connection  = @saved_col_connection */ ;

--
-- Temporary view structure for view "spent"
--

DROP TABLE IF EXISTS "spent";
/*!50001 DROP VIEW IF EXISTS "spent"*/;
SET @saved_cs_client     = @@character_set_client;
/*!50503 SET character_set_client = utf8mb4 */;
/*!50001 CREATE VIEW "spent" AS SELECT 
 1 AS "name",
 1 AS "amount"*/;
SET character_set_client = @saved_cs_client;

--
-- Final view structure for view "spent"
--

/*!50001 DROP VIEW IF EXISTS "spent"*/;
/*!50001 SET @saved_cs_client          = @@character_set_client */;
/*!50001 SET @saved_cs_results         = @@character_set_results */;
/*!50001 SET @saved_col_connection     = @@collation_connection */;
/*!50001 SET character_set_client      = utf8mb4 */;
/*!50001 SET character_set_results     = utf8mb4 */;
/*!50001 SET collation_connection      = utf8mb4_0900_ai_ci */;
/*!50001 CREATE VIEW "spent" AS select "c"."name" AS "name",sum("p"."amount") AS "amount" from ("customer" "c" join "purchase" "p" on(("p"."customer" = "c"."id"))) group by "c"."name" */;
/*!50001 SET character_set_client      = @saved_cs_client */;
/*!50001 SET character_set_results     = @saved_cs_results */;
/*!50001 SET collation_connection      = @saved_col_connection */;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;

-- Dump completed on 2026-11-27  2:28:59
